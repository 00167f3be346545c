/* Code is called before a DSB has waited for its invalidation. */
#include "new_code.h"

void publish(void)
{
    clean_to_unification(PAGE_A);
    complete();
    invalidate_code_line(PAGE_A);
    ONLY_CORRECT(complete());
    synchronise();
}
