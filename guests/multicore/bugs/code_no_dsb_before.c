/* Code is cleaned and invalidated with no DSB between: the old may be fetched after the invalidation. */
#include "new_code.h"

void publish(void)
{
    clean_to_unification(PAGE_A);
    ONLY_CORRECT(complete());
    invalidate_code_line(PAGE_A);
    complete();
    synchronise();
}
