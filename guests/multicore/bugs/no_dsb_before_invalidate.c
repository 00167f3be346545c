/* A descriptor is made invalid and the TLB entry invalidated, with no DSB between: a walk may read the old
 * descriptor after the invalidation. (seL4's issue 1710 was a missing DSB.) */
#include "../machine.h"

void other(word core) { (void)core; }

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    use(VIEW);
    set_entry(PAGES_TABLE, 0, 0);
    ONLY_CORRECT(complete());
    tlb_entry(VIEW);
    complete();
    synchronise();
    set_entry(PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    synchronise();
    use(VIEW);
}
