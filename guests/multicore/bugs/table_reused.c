/* A table is unlinked and its memory used for something else before the invalidation: a walk that has kept
 * the link reads what is not a descriptor. */
#include "../machine.h"

/* What a walk keeps of a first-level descriptor belongs to a space, even where the pages are global. */
enum { SPACE = 1 };

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    set_entry(TABLE, VIEW >> 20, 0);
    complete();
    ONLY_CORRECT(tlb_entry(VIEW | SPACE));
    ONLY_CORRECT(complete());
    put(PAGES_TABLE + 4, 0x12345677);
    tlb_entry(VIEW | SPACE);
    complete();
    synchronise();
}
