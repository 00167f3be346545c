/* The table base is changed before the address-space identifier, with no reserved one between: what is
 * walked in between enters the TLB for the wrong space. (Genode's issue 3651 was of this kind.) */
#include "../machine.h"

static void enter(word table, word space)
{
    ONLY_CORRECT(set_space(0));
    ONLY_CORRECT(synchronise());
    set_table(table);
    synchronise();
    ONLY_CORRECT(tlb_space(0));
    ONLY_CORRECT(complete());
    use(VIEW);                  /* an interrupt, or speculation */
    ONLY_CORRECT(tlb_space(0));
    ONLY_CORRECT(complete());
    set_space(space);
    synchronise();
}

void first(void)
{
    map_view_of_both(NOT_GLOBAL);
    enter(OTHER_TABLE, 2);
    use(VIEW);
    enter(TABLE, 1);
    use(VIEW);
}
