/* Instruction cache lines are invalidated in steps of a data cache line, which is twice as long: every
 * other line stays. (Genode's issue 3685 was of this kind.) */
#include "../machine.h"

static void put_functions(word result)
{
    for (word place = PAGE_A; place < PAGE_A + 64; place += 32)
        put_function(place, result);
    clean_to_unification(PAGE_A);
    complete();
    for (word place = PAGE_A; place < PAGE_A + 64; place += CORRECT_OR_WRONG(32, 64))
        invalidate_code_line(place);
    complete();
    synchronise();
}

void first(void)
{
    put_functions(1);
    call(PAGE_A);
    call(PAGE_A + 32);
    put_functions(2);
    call(PAGE_A);
    call(PAGE_A + 32);
}
