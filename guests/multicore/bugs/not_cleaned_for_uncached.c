/* Memory is written through a cacheable mapping and read through one that is not: mismatched attributes with
 * no clean between. */
#include "../machine.h"

void first(void)
{
    put(PAGE_A, 1);
    ONLY_CORRECT(clean_to_coherency(PAGE_A));
    complete();
    use(PAGE_A + (UNCACHED - 0x40000000));
}
