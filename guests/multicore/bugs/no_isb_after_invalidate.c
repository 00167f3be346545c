/* A TLB invalidation is complete, and the core that did it goes on without synchronising its context. */
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
    complete();
    ONLY_CORRECT(synchronise());
    put(VIEW, 1);
}
