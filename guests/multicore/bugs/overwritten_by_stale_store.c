/* A store by an old entry goes to the old page, where somebody then misses what was there. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    put(VIEW, 1);
    unmap_view();
    ONLY_CORRECT(tlb_entry(VIEW));
    ONLY_CORRECT(complete());
    ONLY_CORRECT(synchronise());
    map_view(PAGE_B, READ_WRITE);
    put(VIEW, 5);
    use(PAGE_A);
    tlb_entry(VIEW);
    complete();
}
