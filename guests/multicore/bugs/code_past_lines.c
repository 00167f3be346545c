/* Code is written past the caches, and the second level, where fetches look, still has the old. */
#include "../machine.h"

void first(void)
{
    put_function(PAGE_A, 1);
    clean_to_coherency(PAGE_A);
    complete();
    invalidate_code_line(PAGE_A);
    complete();
    synchronise();
    call(PAGE_A);
    put_function(PAGE_A + (UNCACHED - 0x40000000), 2);
    complete();
    ONLY_CORRECT(invalidate_data(PAGE_A));
    complete();
    invalidate_code_line(PAGE_A);
    complete();
    synchronise();
    call(PAGE_A);
}
