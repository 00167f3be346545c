/* A page is unmapped and mapped again as it was, and then the descriptor becomes another page at once. TLBs have
 * held the first one all the time. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    unmap_view();
    map_view(PAGE_A, READ_WRITE);
    ONLY_CORRECT(unmap_view());
    ONLY_CORRECT(tlb_entry(VIEW));
    ONLY_CORRECT(complete());
    map_view(PAGE_B, READ_WRITE);
    tlb_entry(VIEW);
    complete();
    synchronise();
    use(VIEW);
}
