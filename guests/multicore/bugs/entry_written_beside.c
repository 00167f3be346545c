/* A descriptor is removed and its entry not invalidated. One beside the descriptor that links its table is written
 * later, and is not to be blamed. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    put(PAGES_TABLE, 0);
    set_entry(TABLE, (VIEW >> 20) + 1, PAGES_TABLE | 1);
    complete();
    ONLY_CORRECT(tlb_entry(VIEW));
    complete();
    synchronise();
    CORRECT_OR_WRONG((void)0, use(VIEW));
}
