/* A page is unmapped and given to another space, which maps it at the same address, before the invalidation is
 * complete, while another core still uses the old entry. In the correct program nothing is written to it until then. */
#include "old_entry.h"

enum { PAGE = PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL };

static void use_again(void) { use(VIEW); }

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE);
    complete();
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    set_entry(OTHER_PAGES_TABLE, 0, PAGE);
    complete();
    enter_space(OTHER_TABLE, 2);
    CORRECT_OR_WRONG((void)0, put(VIEW, 7));
    let_the_other_use_it_again();
    tlb_entry(VIEW | 1);
    complete();
    synchronise();
    ONLY_CORRECT(put(VIEW, 7));
}
