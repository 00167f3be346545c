/* As cached_after_uncached, where the whole cache is cleaned by set and way, but not invalidated. */
#include "../machine.h"

enum { WAYS = 4, SETS = 128 };

void first(void)
{
    use(PAGE_A);
    put(PAGE_A + (UNCACHED - 0x40000000), 2);
    complete();
    for (word slot = 0; slot < WAYS * SETS; slot++) {
        word way_and_set = slot % WAYS << 30 | slot / WAYS << 6;
        CORRECT_OR_WRONG(WRITE_CP15(way_and_set, c7, c14, 2), WRITE_CP15(way_and_set, c7, c10, 2));
    }
    complete();
    evict_lines();
    use(PAGE_A);
}
