/* As code_no_isb_elsewhere; the core that replaced the code invalidates its instruction cache once more, which
 * the other core need not wait for: the old code has left its own. */
#include "../machine.h"

static volatile word called, replaced, synchronised, invalidated, done;

void other(word core)
{
    (void)core;
    call(PAGE_A);
    flag_raise(&called);
    flag_wait(&replaced);
    ONLY_CORRECT(synchronise());
    flag_raise(&synchronised);
    flag_wait(&invalidated);
    call(PAGE_A);
    flag_raise(&done);
}

static void replace(word result)
{
    put_function(PAGE_A, result);
    clean_to_unification(PAGE_A);
    complete();
    invalidate_code_line(PAGE_A);
    complete();
}

void first(void)
{
    replace(1);
    turn_on(1);
    flag_wait(&called);
    replace(2);
    flag_raise(&replaced);
    flag_wait(&synchronised);
    invalidate_code_here();
    flag_raise(&invalidated);
    flag_wait(&done);
}
