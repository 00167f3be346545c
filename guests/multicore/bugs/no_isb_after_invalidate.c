/* A TLB invalidation is complete, and the core that did it continues without synchronising its context. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_ONLY);
    use(VIEW);
    map_view(PAGE_A, READ_WRITE);
    tlb_entry(VIEW);
    complete();
    ONLY_CORRECT(synchronise());
    put(VIEW, 1);
}
