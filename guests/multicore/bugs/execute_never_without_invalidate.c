/* A page with code is made execute-never, its TLB entry stays, and a call goes through. The correct program
 * makes it executable again first. */
#include "execute_never.h"

void first(void)
{
    put_function(PAGE_A, 1);
    clean_to_unification(PAGE_A);
    complete();
    invalidate_code_line(PAGE_A);
    map(0);
    call(VIEW);
    map(EXECUTE_NEVER);
    ONLY_CORRECT(map(0));
    call(VIEW);
}
