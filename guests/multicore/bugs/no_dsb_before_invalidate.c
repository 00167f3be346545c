/* A descriptor is made invalid and the TLB entry invalidated, with no DSB between: a walk may read the old
 * descriptor after the invalidation. (seL4's issue 1710 was a missing DSB.) */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    set_entry(PAGES_TABLE, 0, 0);
    ONLY_CORRECT(complete());
    tlb_entry(VIEW);
    complete();
    synchronise();
    map_view(PAGE_B, READ_WRITE);
    synchronise();
    use(VIEW);
}
