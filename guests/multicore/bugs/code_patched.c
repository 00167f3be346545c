/* An instruction becomes a branch as Linux's jump labels do, from one that may not. NOP may (ARM DDI 0406C, A3.5.4). */
#include "patch.h"

void first(void)
{
    patch(CORRECT_OR_WRONG(NOP, MOVE), PAGE_A);
}
