/* Code is replaced and cleaned, and the instruction cache keeps the old. */
#include "new_code.h"

void publish(void)
{
    clean_to_unification(PAGE_A);
    complete();
    ONLY_CORRECT(invalidate_code_line(PAGE_A));
    complete();
    synchronise();
}
