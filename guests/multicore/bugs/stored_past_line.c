/* Memory is written past the caches while its line is dirty: when it is written back it takes the word with it. */
#include "../machine.h"

void first(void)
{
    put(PAGE_A, 1);
    ONLY_CORRECT(clean_and_invalidate(PAGE_A));
    complete();
    put(PAGE_A + 4 + (UNCACHED - 0x40000000), 2);
    complete();
}
