/* The measured pages, flushes, medians and counters that the experiments share. */
#include "../multicore/counters.h"

#ifndef RUNS
#define RUNS 2500
#endif

enum {
    PAGE = 4096,
    MOST_PAGES = 64,
    APART = 17,                     /* pages from one to the next of the 68 KB benchmark */
    MEASURED = 0xa0000000,          /* where the pages are, and their frames */
    FRAMES = 0x44000000,
    /* Second-level tables of this memory. Their lines are where none of the program is, also in a first level of one way
     * (32 KB), or what a run takes would depend on where the program was linked. */
    TABLES = 0x40304000,
    SPACE = 1,                      /* the address space that runs */
    OFFSET = 0x440,                 /* of the second access in a page, which finds nothing in the cache */
};

/* What is measured of a migration. */
enum { COLD, MIGRATED, RESTORE, SAVE, FIGURES };

static word figures[FIGURES][RUNS + 1];

static void map_measured(void)
{
    word pages = MOST_PAGES * APART;
    for (word page = 0; page < pages; page++)
        set_entry(TABLES, page, FRAMES + page * PAGE | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL);
    for (word table = 0; table < (pages + 255) / 256; table++)
        set_entry(TABLE, (MEASURED >> 20) + table, TABLES + table * 1024 | 1);
    complete();
}

#define WRITE_CP15_2(value, crn, crm, op2) \
    __asm__ volatile("mcr p15, 2, %0, " #crn ", " #crm ", " #op2 : : "r"(value) : "memory")

static inline void flush_tlb(void)
{
    complete();
    tlb_all_here();
    complete();
    synchronise();
}

/* Cleans and invalidates all lines of a level of data cache by set and way, in the shape that the core tells (ARM DDI
 * 0406C, B4.1.19). */
static void flush_level(word level)
{
    word shape;
    WRITE_CP15_2(level << 1, c0, c0, 0);
    synchronise();
    __asm__ volatile("mrc p15, 1, %0, c0, c0, 0" : "=r"(shape));
    word line_shift = (shape & 7) + 4, last_way = shape >> 3 & 0x3ff, last_set = shape >> 13 & 0x7fff;
    word way_shift = last_way ? __builtin_clz(last_way) : 0;
    for (word way = 0; way <= last_way; way++)
        for (word set = 0; set <= last_set; set++)
            WRITE_CP15(way << way_shift | set << line_shift | level << 1, c7, c14, 2);
    complete();
}

/* All data caches, the first level first (ARM DDI 0406C, B2.2.7), and the TLB. */
static void flush_all(void)
{
    flush_level(0);
    flush_level(1);
    flush_tlb();
}

/* Reads a word of each page and does nothing with it, so that reads need not wait for each other; until all are done. */
__attribute__((noinline)) static word access_pages(word pages, word stride, word offset)
{
    word start = cycles();
    for (word place = MEASURED + offset; pages; pages--, place += stride)
        *(volatile word *)place;
    complete();
    return cycles() - start;
}

static word median(word *values)
{
    for (word gap = RUNS / 2; gap; gap /= 2)
        for (word end = gap; end < RUNS; end++) {
            word value = values[end], place = end;
            for (; place >= gap && values[place - gap] > value; place -= gap)
                values[place] = values[place - gap];
            values[place] = value;
        }
    return values[RUNS / 2];
}

static void say(const char *name, word pages, const word *values, word count)
{
    print(name);
    print(" ");
    print_number(pages);
    for (word value = 0; value < count; value++) {
        print(" ");
        print_number(values[value]);
    }
    print("\n");
}

static void say_medians(const char *name, word pages)
{
    word results[FIGURES];
    for (word figure = 0; figure < FIGURES; figure++)
        results[figure] = median(figures[figure]);
    say(name, pages, results, FIGURES);
}
