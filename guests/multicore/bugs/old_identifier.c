/* A space gets another identifier. Afterwards a page of it is replaced by another, with an invalidation by the
 * identifier that the space had when the page was read. */
#include "../machine.h"

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL);
    /* A section of the same space, not global, in which nothing is read before. */
    set_entry(TABLE, (VIEW >> 20) + 1, PAGE_B >> 20 << 20 | 0x31c0e);
    complete();
    enter_space(TABLE, 1);
    use(VIEW);
    enter_space(TABLE, 2);
    use(VIEW + 0x101000);
    unmap_view();
    tlb_entry(VIEW | CORRECT_OR_WRONG(2, 1));
    complete();
    map_view(PAGE_B, READ_WRITE | NOT_GLOBAL);
}
