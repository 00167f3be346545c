/* A page of 64 KB is unmapped, and its end used for something else before the invalidation; another core uses its entry
 * by another of its sixteen descriptors than the one that was walked. In the correct program the next page is written. */
#include "../machine.h"

enum { LARGE = 0x40210000, LARGE_VIEW = VIEW + 0x10000 };

static volatile word mapped, given, done;

static void set_large_page(word descriptor)
{
    for (word i = 0; i < 16; i++)
        set_entry(PAGES_TABLE, 16 + i, descriptor);
    complete();
}

void other(word core)
{
    (void)core;
    use(LARGE_VIEW);
    flag_raise(&mapped);
    flag_wait(&given);
    use(LARGE_VIEW + 0x3000);
    flag_raise(&done);
}

void first(void)
{
    set_large_page(LARGE | LARGE_PAGE | LARGE_NORMAL | READ_WRITE | NOT_GLOBAL);
    turn_on(1);
    flag_wait(&mapped);
    set_large_page(0);
    put(LARGE + CORRECT_OR_WRONG(0x10000, 0xf000), 7);
    flag_raise(&given);
    flag_wait(&done);
    tlb_space(1);
    complete();
    synchronise();
}
