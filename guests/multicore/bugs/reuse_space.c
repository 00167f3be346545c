/* An address-space identifier is given to other tables while the TLB has entries of the space before. */
#include "../machine.h"

void first(void)
{
    map_view_of_both(NOT_GLOBAL);
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
