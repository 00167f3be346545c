/* A page at VIEW that may be executed or not. */
#include "../machine.h"

enum { EXECUTE_NEVER = 1 };

static void map(word bits)
{
    map_view(PAGE_A, READ_WRITE | bits);
    ONLY_CORRECT(tlb_entry(VIEW));
    ONLY_CORRECT(complete());
    synchronise();
}
