/* A descriptor is changed from one page to another at once: for a time TLBs may hold either, or both. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    ONLY_CORRECT(set_entry(PAGES_TABLE, 0, 0));
    ONLY_CORRECT(complete());
    ONLY_CORRECT(tlb_entry(VIEW));
    ONLY_CORRECT(complete());
    map_view(PAGE_B, READ_WRITE);
    tlb_entry(VIEW);
    complete();
    synchronise();
    use(VIEW);
}
