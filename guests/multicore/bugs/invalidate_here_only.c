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
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    turn_on(1);
    flag_wait(&mapped);
    set_entry(PAGES_TABLE, 0, 0);
    complete();
    CORRECT_OR_WRONG(tlb_entry(VIEW), tlb_entry_here(VIEW));
    complete();
    synchronise();
    set_entry(PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    flag_raise(&remapped);
    flag_wait(&done);
}
