/* A line is invalidated where it should be cleaned and invalidated: what was stored is lost. */
#include "../machine.h"

void first(void)
{
    put(PAGE_A, 1);
    CORRECT_OR_WRONG(clean_and_invalidate(PAGE_A), invalidate_data(PAGE_A));
    complete();
    use(PAGE_A);
}
