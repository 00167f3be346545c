/* A section is split into pages at once: TLBs may hold the section beside the pages. */
#include "../machine.h"

enum { SECTION = 0x11c0e, COARSE = 1 };

void first(void)
{
    set_entry(TABLE, VIEW >> 20, 0x40200000 | SECTION);
    map_view(PAGE_B, READ_WRITE);
    use(VIEW);
    ONLY_CORRECT(set_entry(TABLE, VIEW >> 20, 0));
    ONLY_CORRECT(complete());
    ONLY_CORRECT(tlb_entry(VIEW));
    ONLY_CORRECT(complete());
    set_entry(TABLE, VIEW >> 20, PAGES_TABLE | COARSE);
    complete();
    tlb_entry(VIEW);
    complete();
    synchronise();
    use(VIEW);
}
