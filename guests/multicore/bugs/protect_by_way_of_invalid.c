/* The permissions of a page change by way of an invalid descriptor, and the kernel writes to it by another address. It
 * stays the same page, so that another core may go on using its entry until the invalidation, which never comes. */
#include "old_entry.h"

static void use_again(void) { put(VIEW + 8, 5); }

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    put(PAGE_A, 1);
    map_view(PAGE_A, READ_ONLY);
    put(PAGE_A, 2);
    let_the_other_use_it_again();
    ONLY_CORRECT(tlb_entry(VIEW));
    complete();
    synchronise();
}
