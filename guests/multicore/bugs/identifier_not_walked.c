/* A space gets another identifier, and before it uses any page by that, a page of it is replaced by another, with an
 * invalidation by an identifier that the space never had. In the correct program it is the new one: the old is not used
 * again before an invalidation of its own. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_WRITE | NOT_GLOBAL);
    enter_space(TABLE, 1);
    use(VIEW);
    enter_space(TABLE, 2);
    enter_space(OTHER_TABLE, 3);
    unmap_view();
    tlb_entry(VIEW | CORRECT_OR_WRONG(2, 3));
    complete();
    map_view(PAGE_B, READ_WRITE | NOT_GLOBAL);
}
