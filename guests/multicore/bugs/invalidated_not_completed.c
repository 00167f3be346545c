/* An invalidation reaches the core that needs it, and no DSB ever waits for it. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    unmap_view();
    use(VIEW);
    tlb_entry_here(VIEW);
    ONLY_CORRECT(complete());
}
