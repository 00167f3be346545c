/* A page is made writable, and a DMB stands where a DSB must wait for the TLB invalidation. */
#include "../machine.h"

void other(word core) { (void)core; }

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_ONLY);
    complete();
    use(VIEW);
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    tlb_entry(VIEW);
    CORRECT_OR_WRONG(complete(), data_barrier());
    synchronise();
    put(VIEW, 1);
}
