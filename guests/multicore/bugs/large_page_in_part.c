/* The descriptors of a page of 64 KB are made invalid one by one. Meanwhile another core reads one that is still valid, and uses
 * its entry at an address whose descriptor is not. In the correct program an invalidation follows. */
#include "../machine.h"

enum { LARGE = 0x40210000, LARGE_VIEW = VIEW + 0x10000 };

static volatile word begun, done;

static void set_descriptors(word from, word to, word value)
{
    for (word i = from; i < to; i++)
        set_entry(PAGES_TABLE, 16 + i, value);
    complete();
}

void other(word core)
{
    (void)core;
    flag_wait(&begun);
    use(LARGE_VIEW + 0xf000);
    use(LARGE_VIEW);
    flag_raise(&done);
}

void first(void)
{
    set_descriptors(0, 16, LARGE | LARGE_PAGE | LARGE_NORMAL | READ_WRITE | NOT_GLOBAL);
    turn_on(1);
    set_descriptors(0, 8, 0);
    flag_raise(&begun);
    flag_wait(&done);
    set_descriptors(8, 16, 0);
    ONLY_CORRECT(tlb_space(1));
    complete();
    synchronise();
}
