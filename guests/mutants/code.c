/* Instructions: code that is written, moved or loaded. */
#include "machine.h"

static void install(word address, const word *code)
{
    put(address, code[0]);
    put(address + 4, code[1]);
}

/* New code is clean in memory, but the I-cache still has the old. */
void new_code_without_icache_invalidate(void)
{
    map(VIEW, PAGE_A, READ_WRITE | CACHED);
    install(UNCACHED + PAGE_A, return_one);
    call(VIEW);
    install(UNCACHED + PAGE_A, return_two);
    ONLY_CORRECT(icache_all());
    call(VIEW);
}

/* The I-cache is empty, but the new code is dirty in the D-cache. */
void new_code_without_dcache_clean(void)
{
    map(VIEW, PAGE_A, READ_WRITE | CACHED);
    install(UNCACHED + PAGE_A, return_one);
    (void)*(volatile word *)VIEW;       /* allocates the line in the D-cache */
    install(VIEW, return_two);
    ONLY_CORRECT(clean_line(VIEW));
    ONLY_CORRECT(drain());
    icache_all();
    call(VIEW);
    clean_all(1, 1);
}

/* Another page comes to the address, and its translation, but not its code. */
void remap_code_without_icache_invalidate(void)
{
    install(UNCACHED + PAGE_A, return_one);
    install(UNCACHED + PAGE_B, return_two);
    map(VIEW, PAGE_A, READ_WRITE | CACHED);
    call(VIEW);
    map(VIEW, PAGE_B, READ_WRITE | CACHED);
    tlb_all();
    ONLY_CORRECT(icache_all());
    call(VIEW);
}

#if CORE != SA1100      /* which has no operation for one line */
/* One line is invalidated where the new code spans two. */
void new_code_over_two_lines(void)
{
    word last_of_line = 28, no_operation = 0xe1a00000;

    map(VIEW, PAGE_A, READ_WRITE | CACHED);
    put(UNCACHED + PAGE_A + last_of_line, no_operation);
    install(UNCACHED + PAGE_A + last_of_line + 4, return_one);
    call(VIEW + last_of_line);
    install(UNCACHED + PAGE_A + last_of_line + 4, return_two);
    WRITE_CP15(VIEW + last_of_line, c7, c5, 1);
    ONLY_CORRECT(WRITE_CP15(VIEW + last_of_line + 4, c7, c5, 1));
    call(VIEW + last_of_line);
}
#endif
