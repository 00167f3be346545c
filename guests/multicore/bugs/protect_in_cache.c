/* A page is write-protected by a descriptor that stays in the data cache, walks go past it, and the TLB entry stays,
 * too: a store goes through. The correct program makes it writable again first. */
#include "../machine.h"

static void map(word permissions)
{
    map_view(PAGE_A, permissions);
    ONLY_CORRECT(clean_to_coherency(PAGES_TABLE));
    ONLY_CORRECT(complete());
    ONLY_CORRECT(tlb_entry(VIEW));
    ONLY_CORRECT(complete());
    synchronise();
}

void first(void)
{
    map(READ_WRITE);
    clean_to_coherency(PAGES_TABLE);
    complete();
    WRITE_CP15(TABLE, c2, c0, 0);       /* walks are not cacheable */
    synchronise();
    put(VIEW, 1);
    map(READ_ONLY);
    ONLY_CORRECT(map(READ_WRITE));
    put(VIEW, 2);
}
