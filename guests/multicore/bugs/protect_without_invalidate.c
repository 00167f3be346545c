/* A page is write-protected, its TLB entry stays, and a store goes through. The correct program makes it
 * writable again first. */
#include "../machine.h"

static void map(word permissions)
{
    map_view(PAGE_A, permissions);
    ONLY_CORRECT(tlb_entry(VIEW));
    ONLY_CORRECT(complete());
    synchronise();
}

void first(void)
{
    map(READ_WRITE);
    put(VIEW, 1);
    map(READ_ONLY);
    ONLY_CORRECT(map(READ_WRITE));
    put(VIEW, 2);
}
