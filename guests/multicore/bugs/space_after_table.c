/* The table base is changed before the address-space identifier, with no reserved one between: what is
 * walked in between enters the TLB for the wrong space. (Genode's issue 3651 was of this kind.) */
#include "../machine.h"

void other(word core) { (void)core; }

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
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL);
    set_entry(OTHER_PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL);
    complete();
    enter(OTHER_TABLE, 2);
    use(VIEW);
    enter(TABLE, 1);
    use(VIEW);
}
