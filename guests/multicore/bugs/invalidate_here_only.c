/* A page is remapped and its TLB entry invalidated, but not on the other core that has it too. */
#include "../machine.h"

static volatile word mapped, remapped, done;

void other(word core)
{
    (void)core;
    use(VIEW);
    flag_raise(&mapped);
    flag_wait(&remapped);
    use(VIEW);
    flag_raise(&done);
}

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    CORRECT_OR_WRONG(tlb_entry(VIEW), tlb_entry_here(VIEW));
    complete();
    synchronise();
    map_view(PAGE_B, READ_WRITE);
    flag_raise(&remapped);
    flag_wait(&done);
}
