/* As used_before_mapped_back; the page is mapped again with no barrier behind, because the machine ends. */
#include "old_entry.h"

static void use_again(void) { use(VIEW); }

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    let_the_other_use_it_again();
    ONLY_CORRECT(set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE));
}
