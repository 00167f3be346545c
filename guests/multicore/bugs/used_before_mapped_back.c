/* A page is unmapped, another core goes on using its entry, and the page is mapped again as it was, which makes this
 * right. It stays unmapped in the wrong program, and the invalidation never comes. */
#include "old_entry.h"

static void use_again(void) { use(VIEW); }

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    let_the_other_use_it_again();
    ONLY_CORRECT(map_view(PAGE_A, READ_WRITE));
    ONLY_CORRECT(tlb_entry(VIEW));
    complete();
    synchronise();
}
