/* Code is replaced that stands in the line of other code, which has executed, but has not itself; the instruction cache
 * keeps the line. */
#include "../machine.h"

static void publish(void)
{
    clean_to_unification(PAGE_A);
    complete();
    ONLY_CORRECT(invalidate_code_line(PAGE_A));
    complete();
    synchronise();
}

void first(void)
{
    put_function(PAGE_A, 1);
    put_function(PAGE_A + 8, 2);
    clean_to_unification(PAGE_A);
    complete();
    invalidate_code_line(PAGE_A);
    complete();
    synchronise();
    call(PAGE_A);
    put_function(PAGE_A + 8, 3);
    publish();
    call(PAGE_A + 8);
}
