/* A space that protects a page gets the identifier of another: the TLB answers with the other's page, which is not
 * the old entry that it may use until its own invalidation. */
#include "../machine.h"

void first(void)
{
    map_view_of_both(NOT_GLOBAL);
    use(VIEW);
    enter_space(OTHER_TABLE, 2);
    use(VIEW);
    set_entry(OTHER_PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_ONLY | NOT_GLOBAL);
    complete();
    ONLY_CORRECT(tlb_space(1));
    ONLY_CORRECT(complete());
    set_space(1);
    synchronise();
    use(VIEW);
    tlb_all();
    complete();
    synchronise();
}
