/* Code that runs through one mapping is replaced, and its line invalidated through another mapping, whose address is in
 * other sets of the instruction cache: this is indexed by virtual addresses, and a way is four pages long. */
#include "../machine.h"

void first(void)
{
    for (word page = 0; page < 2; page++)
        set_entry(PAGES_TABLE, page, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    for (word result = 1; result <= 2; result++) {
        put_function(VIEW, result);
        clean_to_unification(VIEW);
        complete();
        CORRECT_OR_WRONG(invalidate_code(), invalidate_code_line(VIEW));
        complete();
        synchronise();
        call(VIEW + 0x1000);
    }
}
