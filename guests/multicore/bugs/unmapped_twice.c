/* A page is mapped at two addresses, and unmapped at both. One of the entries is invalidated, the page is written, and
 * another core still uses the other one. */
#include "old_entry.h"

enum { SECOND_VIEW = VIEW + 0x1000 };

static void use_again(void) { use(VIEW); }

void first(void)
{
    set_entry(PAGES_TABLE, 1, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE);
    map_view(PAGE_A, READ_WRITE);
    use(SECOND_VIEW);
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    set_entry(PAGES_TABLE, 1, 0);
    complete();
    tlb_entry(SECOND_VIEW);
    complete();
    synchronise();
    complete();
    CORRECT_OR_WRONG((void)0, put(PAGE_A, 7));
    let_the_other_use_it_again();
    tlb_entry(VIEW);
    complete();
    synchronise();
}
