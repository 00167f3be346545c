/* A page is made writable, and a DMB stands where a DSB must wait for the TLB invalidation. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_ONLY);
    use(VIEW);
    map_view(PAGE_A, READ_WRITE);
    tlb_entry(VIEW);
    CORRECT_OR_WRONG(complete(), data_barrier());
    synchronise();
    put(VIEW, 1);
}
