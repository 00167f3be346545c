/* A table is replaced by another without an invalidation. The page that is used then is in no TLB: only the walk cache
 * knows the old table. */
#include "../machine.h"

enum { SPACE = 1, PAGE = 4096 };

void first(void)
{
    set_entry(PAGES_TABLE, 1, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE);
    set_entry(OTHER_PAGES_TABLE, 1, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE);
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    set_entry(TABLE, VIEW >> 20, 0);
    complete();
    ONLY_CORRECT(tlb_entry(VIEW | SPACE));
    ONLY_CORRECT(complete());
    set_entry(TABLE, VIEW >> 20, OTHER_PAGES_TABLE | 1);
    complete();
    synchronise();
    use(VIEW + PAGE);
}
