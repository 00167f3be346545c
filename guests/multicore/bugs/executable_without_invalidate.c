/* A page that was execute-never becomes executable, the TLB entry of a store to it stays, and a call fails. */
#include "execute_never.h"

void first(void)
{
    map(EXECUTE_NEVER);
    put_function(VIEW, 1);
    clean_to_unification(VIEW);
    complete();
    invalidate_code_line(VIEW);
    map(0);
    call(VIEW);
}
