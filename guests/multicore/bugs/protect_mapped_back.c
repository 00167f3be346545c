/* A page is unmapped, mapped again as it was and then write-protected, and another core, which has held its entry all
 * the time, stores. The invalidation that would make this right never comes. */
#include "old_entry.h"

static void use_again(void) { put(VIEW + 8, 5); }

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    map_view(PAGE_A, READ_WRITE);
    map_view(PAGE_A, READ_ONLY);
    let_the_other_use_it_again();
    ONLY_CORRECT(tlb_entry(VIEW));
    complete();
    synchronise();
}
