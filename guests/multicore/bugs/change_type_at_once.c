/* A page in use becomes uncached at once: for a time TLBs may hold either memory type, or both. Linux's
 * __dma_remap does so with the pages that it gives to devices. */
#include "../machine.h"

enum { NORMAL_UNCACHED = 0x440 };

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    clean_to_coherency(VIEW);
    complete();
    ONLY_CORRECT(set_entry(PAGES_TABLE, 0, 0));
    ONLY_CORRECT(complete());
    ONLY_CORRECT(tlb_entry(VIEW));
    ONLY_CORRECT(complete());
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL_UNCACHED | READ_WRITE);
    complete();
    tlb_entry(VIEW);
    complete();
    synchronise();
    use(VIEW);
}
