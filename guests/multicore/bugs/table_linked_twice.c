/* A table that is linked at two addresses loses both links, and is used for something else when walks by one of them
 * are over. */
#include "../machine.h"

enum { SPACE = 1, SECOND_VIEW = VIEW + 0x100000 };

void first(void)
{
    set_entry(TABLE, SECOND_VIEW >> 20, PAGES_TABLE | 1);
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    use(SECOND_VIEW);
    set_entry(TABLE, VIEW >> 20, 0);
    set_entry(TABLE, SECOND_VIEW >> 20, 0);
    complete();
    tlb_entry(SECOND_VIEW | SPACE);
    ONLY_CORRECT(tlb_entry(VIEW | SPACE));
    complete();
    synchronise();
    complete();
    put(PAGES_TABLE + 4, 0x12345677);
    tlb_all();
    complete();
    synchronise();
}
