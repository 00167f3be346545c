/* A descriptor is made invalid and then another page, and the TLB entry invalidated only then. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    unmap_view();
    ONLY_CORRECT(tlb_entry(VIEW));
    ONLY_CORRECT(complete());
    map_view(PAGE_B, READ_WRITE);
    tlb_entry(VIEW);
    complete();
    synchronise();
    use(VIEW);
}
