/* Code is replaced and the instruction cache invalidated on the core that does it, not on the other. */
#include "elsewhere.h"

static void before_second_call(void)
{
    synchronise();
}

static void replace(word result)
{
    put_function(PAGE_A, result);
    clean_to_unification(PAGE_A);
    complete();
}

void first(void)
{
    replace(1);
    invalidate_code();
    complete();
    turn_on(1);
    flag_wait(&called);
    replace(2);
    CORRECT_OR_WRONG(invalidate_code(), invalidate_code_here());
    complete();
    flag_raise(&replaced);
    flag_wait(&done);
}
