/* As cached_after_uncached. Before the store another line is cleaned and invalidated by set and way, and the line, which
 * was used several times, is used once more. */
#include "../machine.h"

enum { ANOTHER_SET = 64 << 6 };

void first(void)
{
    for (word time = 0; time < 3; time++)
        use(PAGE_A);
    WRITE_CP15(PAGE_A & 127 << 6 ^ ANOTHER_SET, c7, c14, 2);
    complete();
    use(PAGE_A);
    put(PAGE_A + (UNCACHED - 0x40000000), 2);
    complete();
    ONLY_CORRECT(invalidate_data(PAGE_A));
    complete();
    evict_lines();
    use(PAGE_A);
}
