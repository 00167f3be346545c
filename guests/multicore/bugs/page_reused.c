/* A page is unmapped and used for something else before the invalidation is complete, while another core
 * still uses the old entry. (Linux's mremap did this: CVE-2018-18281.) In the correct program the other core
 * uses the old entry at the same time, which is permitted, and finds what was there. */
#include "old_entry.h"

static void use_again(void) { use(VIEW); }

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    CORRECT_OR_WRONG((void)0, put(PAGE_A, 7));
    let_the_other_use_it_again();
    tlb_entry(VIEW);
    complete();
    synchronise();
    ONLY_CORRECT(put(PAGE_A, 7));
}
