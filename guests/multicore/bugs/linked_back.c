/* The same by way of a table that is unlinked and linked again. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    set_entry(TABLE, VIEW >> 20, 0);
    complete();
    set_entry(TABLE, VIEW >> 20, PAGES_TABLE | 1);
    complete();
    ONLY_CORRECT(unmap_view());
    ONLY_CORRECT(tlb_entry(VIEW));
    ONLY_CORRECT(complete());
    map_view(PAGE_B, READ_WRITE);
    tlb_entry(VIEW);
    complete();
    synchronise();
    use(VIEW);
}
