/* A page is write-protected, its TLB entry stays, and a store goes through. The correct program makes it
 * writable again first. */
#include "../machine.h"

void other(word core) { (void)core; }

static void map(word permissions)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | permissions);
    complete();
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
