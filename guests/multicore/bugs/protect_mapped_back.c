/* A page is unmapped, mapped again as it was and then write-protected, and another core, which has held its entry all
 * the time, stores. The invalidation that would make this right never comes. */
#include "../machine.h"

static volatile word mapped, given, done;

void other(word core)
{
    (void)core;
    use(VIEW);
    flag_raise(&mapped);
    flag_wait(&given);
    put(VIEW + 8, 5);
    flag_raise(&done);
}

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    map_view(PAGE_A, READ_WRITE);
    map_view(PAGE_A, READ_ONLY);
    flag_raise(&given);
    flag_wait(&done);
    ONLY_CORRECT(tlb_entry(VIEW));
    complete();
    synchronise();
}
