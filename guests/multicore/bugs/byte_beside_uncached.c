/* A word is stored past the caches, which may hold it, and one byte of it then through them. The other bytes may still
 * be old. */
#include "../machine.h"

void first(void)
{
    use(PAGE_A);
    put(PAGE_A + (UNCACHED - 0x40000000), 0x01020304);
    complete();
    ONLY_CORRECT(invalidate_data(PAGE_A));
    complete();
    evict_lines();
    *(volatile unsigned char *)PAGE_A = 9;
    use(PAGE_A);
}
