/* A page is unmapped and used for something else before the invalidation is complete, while another core
 * still uses the old entry. (Linux's mremap did this: CVE-2018-18281.) In the correct program the other core
 * uses the old entry at the same time, which is permitted, and finds what was there. */
#include "../machine.h"

static volatile word mapped, unmapped, done;

void other(word core)
{
    (void)core;
    use(VIEW);
    flag_raise(&mapped);
    flag_wait(&unmapped);
    use(VIEW);
    flag_raise(&done);
}

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    CORRECT_OR_WRONG((void)0, put(PAGE_A, 7));
    flag_raise(&unmapped);
    flag_wait(&done);
    tlb_entry(VIEW);
    complete();
    synchronise();
    ONLY_CORRECT(put(PAGE_A, 7));
}
