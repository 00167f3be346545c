/* Tables are walked past the caches, and a descriptor stays in the data cache. */
#include "../machine.h"

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE);
    ONLY_CORRECT(clean_to_coherency(PAGES_TABLE));
    complete();
    WRITE_CP15(TABLE, c2, c0, 0);       /* walks are not cacheable */
    synchronise();
    use(VIEW);
}
