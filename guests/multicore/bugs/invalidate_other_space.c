/* The entry of a private page is invalidated with the identifier of another space. */
#include "../machine.h"

void other(word core) { (void)core; }

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL);
    complete();
    use(VIEW);
    set_entry(PAGES_TABLE, 0, 0);
    complete();
    tlb_entry(VIEW | CORRECT_OR_WRONG(1, 2));
    complete();
    synchronise();
    set_entry(PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL);
    complete();
    synchronise();
    use(VIEW);
}
