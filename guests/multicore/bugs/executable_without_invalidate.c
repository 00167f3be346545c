/* A page that was execute-never becomes executable, the TLB entry of a store to it stays, and a call fails. */
#include "../machine.h"

enum { EXECUTE_NEVER = 1 };

static void map(word bits)
{
    map_view(PAGE_A, READ_WRITE | bits);
    ONLY_CORRECT(tlb_entry(VIEW));
    ONLY_CORRECT(complete());
    synchronise();
}

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
