/* A core that has not used the page is told that it may be written before the TLB invalidation, which reaches that core, is complete. One
   that does not reach it does not concern it. */
#include "../machine.h"

static volatile word ready, writable, done;

void other(word core)
{
    (void)core;
    flag_raise(&ready);
    while (!writable)
        ;
    data_barrier();
    put(VIEW, 1);
    flag_raise(&done);
}

void first(void)
{
    map_view(PAGE_A, READ_ONLY);
    use(VIEW);
    turn_on(1);
    flag_wait(&ready);
    map_view(PAGE_A, READ_WRITE);
    CORRECT_OR_WRONG(tlb_entry_here(VIEW), tlb_entry(VIEW));
    data_barrier();
    writable = 1;
    while (!done)
        ;
    complete();
}
