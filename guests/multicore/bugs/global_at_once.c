/* A page of one space becomes global at once: for a time TLBs may hold both, and an address hits both. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_WRITE | NOT_GLOBAL);
    use(VIEW);
    ONLY_CORRECT(set_entry(PAGES_TABLE, 0, 0));
    ONLY_CORRECT(complete());
    ONLY_CORRECT(tlb_entry(VIEW | 1));
    ONLY_CORRECT(complete());
    map_view(PAGE_A, READ_WRITE);
    tlb_entry(VIEW | 1);
    complete();
    synchronise();
    use(VIEW);
}
