/* A descriptor is written past the caches, and the data cache, where walks look, still has the old one. */
#include "../machine.h"

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE);
    CORRECT_OR_WRONG(clean_and_invalidate(PAGES_TABLE), clean_to_coherency(PAGES_TABLE));
    complete();
    set_entry(PAGES_TABLE + (UNCACHED - 0x40000000), 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    use(VIEW);
}
