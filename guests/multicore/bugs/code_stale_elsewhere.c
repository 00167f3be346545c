/* Code is replaced and the instruction cache invalidated on the core that does it, not on the other. */
#include "../machine.h"

static volatile word called, replaced, done;

void other(word core)
{
    (void)core;
    call(PAGE_A);
    flag_raise(&called);
    flag_wait(&replaced);
    synchronise();
    call(PAGE_A);
    flag_raise(&done);
}

static void put_function(word result)
{
    put(PAGE_A, 0xe3a00000 | result);   /* MOV R0, #result */
    put(PAGE_A + 4, 0xe12fff1e);        /* BX LR */
    clean_to_unification(PAGE_A);
    complete();
}

void first(void)
{
    put_function(1);
    invalidate_code();
    complete();
    turn_on(1);
    flag_wait(&called);
    put_function(2);
    CORRECT_OR_WRONG(invalidate_code(), invalidate_code_here());
    complete();
    flag_raise(&replaced);
    flag_wait(&done);
}
