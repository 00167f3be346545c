/* Of two links to a table one is removed, with all that this needs, and a page is replaced that the other reaches. In the
 * correct program it is write-protected, and another core stores through its old entry before the invalidation. */
#include "old_entry.h"

enum { SPACE = 1, SECOND_VIEW = VIEW + 0x100000 };

static void use_again(void) { put(VIEW, 1); }

void first(void)
{
    set_entry(TABLE, SECOND_VIEW >> 20, PAGES_TABLE | 1);
    map_view(PAGE_A, READ_WRITE);
    use(SECOND_VIEW);
    turn_on(1);
    flag_wait(&mapped);
    use(SECOND_VIEW);
    set_entry(TABLE, SECOND_VIEW >> 20, 0);
    complete();
    tlb_entry(SECOND_VIEW | SPACE);
    complete();
    synchronise();
    CORRECT_OR_WRONG(map_view(PAGE_A, READ_ONLY), map_view(PAGE_B, READ_WRITE));
    let_the_other_use_it_again();
    tlb_all();
    complete();
    synchronise();
}
