/* Two words of a line are stored past the caches by two instructions, and each is loaded three times through them. */
#include "../machine.h"

__attribute__((noinline)) static void put_second(word address, word value)
{
    *(volatile word *)address = value;
}

void first(void)
{
    enum { UNCACHED_PAGE = PAGE_A + (UNCACHED - 0x40000000) };

    use(PAGE_A);
    put(UNCACHED_PAGE, 2);
    put_second(UNCACHED_PAGE + 4, 3);
    complete();
    ONLY_CORRECT(invalidate_data(PAGE_A));
    complete();
    evict_lines();
    for (word i = 0; i < 3; i++)
        use(PAGE_A);
    for (word i = 0; i < 3; i++)
        use(PAGE_A + 4);
}
