/* Code is written and the instruction cache invalidated, but the code stays in the data cache. */
#include "new_code.h"

void publish(void)
{
    ONLY_CORRECT(clean_to_unification(PAGE_A));
    complete();
    invalidate_code_line(PAGE_A);
    complete();
    synchronise();
}
