/* As no_isb_after_invalidate; the invalidation that follows, for something else, needs no ISB before the use of
 * this page: nothing of it is left in any TLB. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_ONLY);
    use(VIEW);
    map_view(PAGE_A, READ_WRITE);
    tlb_entry(VIEW);
    complete();
    ONLY_CORRECT(synchronise());
    tlb_all();
    complete();
    put(VIEW, 1);
}
