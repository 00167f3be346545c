/* Code is replaced and called with no ISB: the core may have fetched the old before. */
#include "new_code.h"

void publish(void)
{
    clean_to_unification(PAGE_A);
    complete();
    invalidate_code_line(PAGE_A);
    complete();
    ONLY_CORRECT(synchronise());
}
