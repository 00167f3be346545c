/* A descriptor is made invalid, its TLB entry invalidated, and it becomes another page before a DSB has
 * waited for the invalidation. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    unmap_view();
    tlb_entry(VIEW);
    ONLY_CORRECT(complete());
    map_view(PAGE_B, READ_WRITE);
    synchronise();
    use(VIEW);
}
