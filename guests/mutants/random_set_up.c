/* Tables, frames and MMU for the random program. Its own code, stack and data are uncached, so that only what it does
 * on purpose depends on maintenance. */
#include "random.h"

word control;

static void section(word address, word physical, word bits)
{
    ((word *)TABLE)[address >> 20] = physical | FULL_ACCESS | SECTION | bits;
}

/* Each word names its place; the code returns a number that no other code does. */
static void fill_frame(word frame)
{
    word *words = (word *)(PAGE_A + (frame << 12));

    for (word i = 0; i < 1024; i++)
        words[i] = 0xf0000000 + (frame << 16) + i;
    words[CODE / 4] = 0xe3e00000 + frame;       /* MVN R0, #frame */
    words[CODE / 4 + 1] = 0xe1a0f00e;           /* MOV PC, LR */
}

static void make_second_level(void)
{
    for (word i = 0; i < 256; i++)
        ((word *)COARSE)[i] = i < VIEW_PAGES ? PAGE_A + (i % 4 << 12) + READ_WRITE + CACHED + SMALL_PAGE : 0;
    for (word i = 0; i < 1024; i++)
        ((word *)FINE)[i] = i < 4 * VIEW_PAGES ? PAGE_A + (i % 16 << 10) + (READ_WRITE & TINY_BITS) + CACHED + TINY_PAGE : 0;
    for (word i = 0; i < 256 * PROCESSES; i++) {
        word process = i / 256, page = i % 256, frame = (SLOT_PAGES * process + page) % 4;
        ((word *)SLOT_COARSE)[i] = page < SLOT_PAGES ? PAGE_A + (frame << 12) + READ_WRITE + CACHED + SMALL_PAGE : 0;
    }
}

/* Runs with the MMU off. */
void set_up(void)
{
    word *table = (word *)TABLE, *other = (word *)OTHER_TABLE;

    for (word i = 0; i < 4096; i++)
        table[i] = 0;
    for (word process = 0; process < PROCESSES; process++) {
        section(process * SLOT, 0, 0);
        table[(process * SLOT + SLOT_VIEW) >> 20] = SLOT_COARSE + COARSE_BYTES * process + SLOT_DOMAIN + COARSE_TABLE;
    }
    section(0x10100000, 0x10100000, 0);         /* the instrumentation device and the console */
    for (word physical = TABLES; physical <= PAGE_A; physical += 1 << 20) {
        section(UNCACHED + physical, physical, 0);
        section(BUFFERED_WINDOW + physical, physical, BUFFERED);
        section(CACHED_WINDOW + physical, physical, CACHED);
        section(NOT_BUFFERED_WINDOW + physical, physical, MINICACHE);
    }
    table[VIEW >> 20] = COARSE + VIEW_DOMAIN + COARSE_TABLE;
#if CORE == SA1100      /* the bank that reads as zeros (278088-004, 6.2.3) */
    section(0xe0000000, 0xe0000000, CACHED);
    section(EVICTION, EVICTION, MINICACHE);
#elif CORE == XSCALE    /* addresses for line allocation, and of the minicache */
    section(0x60000000, BIG_B, CACHED);
    section(EVICTION, BIG_A, MINICACHE);
#endif
    for (word i = 0; i < 4096; i++)
        other[i] = table[i];
    other[VIEW >> 20] = FINE + VIEW_DOMAIN + FINE_TABLE;
    make_second_level();
    for (word frame = 0; frame < FRAMES; frame++)
        fill_frame(frame);
    set_table(TABLE);
    set_domains(0x15);                          /* client of three domains */
    WRITE_CP15(0, c7, c7, 0);
    tlb_all();
    __asm__ volatile("mrc p15, 0, %0, c1, c0, 0" : "=r"(control));
    set_control(control | MMU | ALIGNMENT | (IS_REFERENCE ? 0 : DATA_CACHE | WRITE_BUFFER | INSTRUCTION_CACHE));
}
