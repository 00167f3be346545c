/* A space is entered, and its memory used before the context is synchronised. */
#include "../machine.h"

void other(word core) { (void)core; }

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL);
    set_entry(OTHER_PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL);
    complete();
    use(VIEW);
    set_space(0);
    synchronise();
    set_table(OTHER_TABLE);
    synchronise();
    set_space(2);
    ONLY_CORRECT(synchronise());
    use(VIEW);
}
