/* Memory is written through a cacheable mapping and read through one that is not. The line has left the caches by
 * itself meanwhile, so the right value is read, which nothing promises. */
#include "../machine.h"

void first(void)
{
    put(PAGE_A, 1);
    ONLY_CORRECT(clean_to_coherency(PAGE_A));
    complete();
    evict_lines();
    use(PAGE_A + (UNCACHED - 0x40000000));
}
