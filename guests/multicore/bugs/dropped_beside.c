/* Two words of a line are lost by an invalidation, and one of them is written again. The other one is still lost by the
 * invalidation. */
#include "../machine.h"

void first(void)
{
    put(PAGE_A, 1);
    put(PAGE_A + 4, 2);
    complete();
    CORRECT_OR_WRONG(clean_and_invalidate(PAGE_A), invalidate_data(PAGE_A));
    complete();
    put(PAGE_A + 4, 3);
    use(PAGE_A);
}
