/* The permissions of a page change by way of an invalid descriptor, and the kernel writes to it by another address. It
 * stays the same page, so that another core may go on using its entry until the invalidation, which never comes. */
#include "../machine.h"

static volatile word mapped, given, done;

void other(word core)
{
    (void)core;
    use(VIEW);
    flag_raise(&mapped);
    flag_wait(&given);
    put(VIEW + 8, 5);
    flag_raise(&done);
}

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    put(PAGE_A, 1);
    map_view(PAGE_A, READ_ONLY);
    put(PAGE_A, 2);
    flag_raise(&given);
    flag_wait(&done);
    ONLY_CORRECT(tlb_entry(VIEW));
    complete();
    synchronise();
}
