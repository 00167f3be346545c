/* Tables, test pages, MMU and caches on; and the accesses that reports name. */
#include "machine.h"

__attribute__((noinline)) void set_entry(word table, word index, word value)
{
    ((volatile word *)(UNCACHED + table))[index] = value;
}

__attribute__((noinline)) void put(word address, word value)
{
    *(volatile word *)address = value;
}

__attribute__((noinline)) word use(word address)
{
    return *(volatile word *)address;
}

__attribute__((noinline)) void use_store(word address, word value)
{
    *(volatile word *)address = value;
}

__attribute__((noinline)) word call(word address)
{
    return ((word(*)(void))address)();
}

static void fill(word physical, word words, word value)
{
    for (word i = 0; i < words; i++)
        ((volatile word *)physical)[i] = value + i;
}

/* Runs with the MMU off: plain stores to physical memory. */
void set_up(void)
{
    word *table = (word *)TABLE, *other = (word *)OTHER_TABLE;

    for (word i = 0; i < 4096; i++)
        table[i] = 0;
    for (word i = 0; i < 512; i++)
        ((word *)COARSE)[i] = 0;
    for (word i = 0; i < 9; i++)
        table[i] = i << 20 | 0xc1e;             /* program and tables: cached */
    for (word i = 0; i < 32; i++)
        table[UNCACHED >> 20 | i] = i << 20 | 0xc12;
    table[0x101] = 0x10100c12;                  /* the instrumentation device and the console */
    table[VIEW >> 20] = COARSE | 0x11;
#if CORE == SA1100
    table[0xe00] = 0xe0000c1e;                  /* the bank that reads as zeros: cached */
#elif CORE == XSCALE
    table[0x600] = BIG_B | 0xc1e;               /* addresses for line allocation */
#endif
    for (word i = 0; i < 4096; i++)
        other[i] = table[i];
    fill(PAGE_A, 1024, 0xa0000000);
    fill(PAGE_B, 1024, 0xb0000000);
    fill(BIG_A, 8192, 0xaa000000);
    fill(BIG_B, 8192, 0xbb000000);
    set_table(TABLE);
    set_domains(0x55555555);
    WRITE_CP15(0, c7, c7, 0);
    tlb_all();
    word control;
    __asm__ volatile("mrc p15, 0, %0, c1, c0, 0" : "=r"(control));
    WRITE_CP15(control | 0x180d, c1, c0, 0);    /* MMU, D-cache, write buffer, branch prediction, I-cache */
    pipeline_nops();
}
