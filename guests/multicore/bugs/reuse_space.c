/* An address-space identifier is given to other tables while the TLB has entries of the space before. */
#include "../machine.h"

void other(word core) { (void)core; }

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL);
    set_entry(OTHER_PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL);
    complete();
    use(VIEW);
    set_space(0);
    synchronise();
    set_table(OTHER_TABLE);
    synchronise();
    ONLY_CORRECT(tlb_space(1));
    ONLY_CORRECT(complete());
    set_space(1);
    synchronise();
    use(VIEW);
}
