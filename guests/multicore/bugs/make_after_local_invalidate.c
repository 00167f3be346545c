/* A page that two cores use is unmapped and invalidated on one core only, and another page takes its place. Where
 * one core alone has ever walked the descriptor, as with the mappings that Linux has for each core (kmap_local),
 * that is enough. */
#include "../machine.h"

static volatile word mapped, used;

void other(word core)
{
    (void)core;
    flag_wait(&mapped);
    CORRECT_OR_WRONG(, use(VIEW));
    flag_raise(&used);
}

void first(void)
{
    turn_on(1);
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    flag_raise(&mapped);
    flag_wait(&used);
    unmap_view();
    tlb_entry_here(VIEW);
    complete();
    synchronise();
    map_view(PAGE_B, READ_WRITE);
    use(VIEW);
}
