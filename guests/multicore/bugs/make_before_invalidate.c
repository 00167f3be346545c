/* A descriptor is made invalid and then another page, and the TLB entry invalidated only then. */
#include "../machine.h"

void other(word core) { (void)core; }

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    use(VIEW);
    set_entry(PAGES_TABLE, 0, 0);
    complete();
    ONLY_CORRECT(tlb_entry(VIEW));
    ONLY_CORRECT(complete());
    set_entry(PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    tlb_entry(VIEW);
    complete();
    synchronise();
    use(VIEW);
}
