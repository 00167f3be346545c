/* A domain is opened, and memory of it used before the context is synchronised. */
#include "../machine.h"

enum { OF_DOMAIN_1 = 1 << 5, COARSE = 1, CLIENT_OF_BOTH = 5 };

void first(void)
{
    set_entry(TABLE, VIEW >> 20, PAGES_TABLE | OF_DOMAIN_1 | COARSE);
    map_view(PAGE_A, READ_WRITE);
    synchronise();
    WRITE_CP15(CLIENT_OF_BOTH, c3, c0, 0);
    ONLY_CORRECT(synchronise());
    use(VIEW);
}
