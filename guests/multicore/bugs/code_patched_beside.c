/* The instruction that the other core executes is replaced, and not one beside it, which it does not. */
#include "patch.h"

void first(void)
{
    patch(MOVE, CORRECT_OR_WRONG(PAGE_A + 20, PAGE_A));
}
