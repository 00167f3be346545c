/* A descriptor is changed from one page to another at once: for a time TLBs may hold either, or both. */
#include "../machine.h"

void other(word core) { (void)core; }

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    use(VIEW);
    ONLY_CORRECT(set_entry(PAGES_TABLE, 0, 0));
    ONLY_CORRECT(complete());
    ONLY_CORRECT(tlb_entry(VIEW));
    ONLY_CORRECT(complete());
    set_entry(PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    tlb_entry(VIEW);
    complete();
    synchronise();
    use(VIEW);
}
