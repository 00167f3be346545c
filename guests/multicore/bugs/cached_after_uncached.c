/* Memory is read through a cacheable mapping, written through one that is not, and read as before. The line has
 * left the caches by itself, so the right value is read, which nothing promises. */
#include "../machine.h"

void first(void)
{
    use(PAGE_A);
    put(PAGE_A + (UNCACHED - 0x40000000), 2);
    complete();
    ONLY_CORRECT(invalidate_data(PAGE_A));
    complete();
    evict_lines();
    use(PAGE_A);
}
