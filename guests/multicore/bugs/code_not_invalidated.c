/* Code is replaced and cleaned, and the instruction cache keeps the old. */
#include "../machine.h"

void other(word core) { (void)core; }

static void put_function(word result)
{
    put(PAGE_A, 0xe3a00000 | result);   /* MOV R0, #result */
    put(PAGE_A + 4, 0xe12fff1e);        /* BX LR */
    clean_to_unification(PAGE_A);
    complete();
    ONLY_CORRECT(invalidate_code_line(PAGE_A));
    complete();
    synchronise();
}

void first(void)
{
    put_function(1);
    call(PAGE_A);
    put_function(2);
    call(PAGE_A);
}
