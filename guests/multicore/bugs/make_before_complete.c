/* A descriptor is made invalid, its TLB entry invalidated, and it becomes another page before a DSB has
 * waited for the invalidation. */
#include "../machine.h"

void other(word core) { (void)core; }

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    use(VIEW);
    set_entry(PAGES_TABLE, 0, 0);
    complete();
    tlb_entry(VIEW);
    ONLY_CORRECT(complete());
    set_entry(PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    synchronise();
    use(VIEW);
}
