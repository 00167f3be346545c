/* Code is written and the instruction cache invalidated, but the code stays in the data cache. */
#include "../machine.h"

void other(word core) { (void)core; }

static void put_function(word result)
{
    put(PAGE_A, 0xe3a00000 | result);   /* MOV R0, #result */
    put(PAGE_A + 4, 0xe12fff1e);        /* BX LR */
    ONLY_CORRECT(clean_to_unification(PAGE_A));
    complete();
    invalidate_code_line(PAGE_A);
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
