/* A page is unmapped, another core goes on using its entry, and the page is mapped again as it was, which makes this
 * right. It stays unmapped in the wrong program, and the invalidation never comes. */
#include "../machine.h"

static volatile word mapped, given, done;

void other(word core)
{
    (void)core;
    use(VIEW);
    flag_raise(&mapped);
    flag_wait(&given);
    use(VIEW);
    flag_raise(&done);
}

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    flag_raise(&given);
    flag_wait(&done);
    ONLY_CORRECT(map_view(PAGE_A, READ_WRITE));
    ONLY_CORRECT(tlb_entry(VIEW));
    complete();
    synchronise();
}
