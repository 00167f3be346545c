/* Another core is told that a page may be written before the TLB invalidation is complete. */
#include "../machine.h"

static volatile word mapped, writable, done;

void other(word core)
{
    (void)core;
    use(VIEW);
    flag_raise(&mapped);
    while (!writable)
        ;
    data_barrier();
    put(VIEW, 1);
    flag_raise(&done);
}

void first(void)
{
    map_view(PAGE_A, READ_ONLY);
    turn_on(1);
    flag_wait(&mapped);
    map_view(PAGE_A, READ_WRITE);
    tlb_entry(VIEW);
    CORRECT_OR_WRONG(complete(), data_barrier());
    writable = 1;
    while (!done)
        ;
    complete();
}
