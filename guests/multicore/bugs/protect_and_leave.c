/* A page is write-protected, and the space left and entered again before it is written: what made the entry old is the store
 * to the table, not the register that was written last. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_WRITE | NOT_GLOBAL);
    put(VIEW, 1);
    map_view(PAGE_A, READ_ONLY | NOT_GLOBAL);
    ONLY_CORRECT(tlb_entry(VIEW | 1));
    ONLY_CORRECT(complete());
    enter_space(OTHER_TABLE, 2);
    enter_space(TABLE, 1);
    CORRECT_OR_WRONG(use(VIEW), put(VIEW, 2));
}
