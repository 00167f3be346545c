/* TLB migration on one Cortex-A7 with what the core has, as the thesis of 2018 measured it (chapter 4): reading
 * the TLB by the operations of coprocessor 15, PLD over consecutive pages, and the whole of a migration, with
 * interrupts off. Prints one line a point: a name, the number of pages, and medians of RUNS runs in cycles.
 */
#include "pages.h"

enum { ENTRIES = 256, WAYS = 2, LINE = 64, EVENT_REFILL = 0x03, EVENT_ACCESS = 0x04 };

static word saved[ENTRIES] __attribute__((aligned(64)));

/* Reads all entries and keeps the addresses of those that are valid and of this space. */
__attribute__((noinline)) static word save(word *count)
{
    word kept = 0, start = cycles();
    for (word way = 0; way < WAYS; way++)
        for (word index = 0; index < ENTRIES / WAYS; index++) {
            word middle, low = read_entry(way << 31 | index, &middle);
            /* Not global: bit 34; identifier of the space: bits 26 to 33. */
            if (low & 1 && (middle & 7) == 4 && low >> 26 == SPACE)
                saved[kept++] = (low >> 5 & 0x1fff) << 19 | index << 12;
        }
    *count = kept;
    return cycles() - start;
}

__attribute__((noinline)) static word restore_direct(word count)
{
    word start = cycles();
    for (word entry = 0; entry < count; entry++)
        __asm__ volatile("pld [%0]" : : "r"(saved[entry]));
    return cycles() - start;
}

/* Brings the descriptor in, so that the walk will hit. */
__attribute__((noinline)) static word restore_indirect(word count)
{
    word start = cycles(), base;
    __asm__ volatile("mrc p15, 0, %0, c2, c0, 0" : "=r"(base));
    const word *first = (const word *)(base & ~0x3fffu);
    for (word entry = 0; entry < count; entry++) {
        word address = saved[entry];
        const word *second = (const word *)(first[address >> 20] & ~0x3ffu);
        __asm__ volatile("pld [%0]" : : "r"(&second[address >> 12 & 0xff]));
    }
    return cycles() - start;
}

__attribute__((noinline)) static word read_entries(word entries)
{
    word start = cycles(), middle;
    for (word entry = 0; entry < entries; entry++)
        read_entry(entry, &middle);
    return cycles() - start;
}

__attribute__((noinline)) static word preload_pages(word pages)
{
    word start = cycles();
    for (word place = MEASURED; pages; pages--, place += PAGE)
        __asm__ volatile("pld [%0]" : : "r"(place));
    return cycles() - start;
}

/* Of each page another line, so that the first level has room for all. */
__attribute__((noinline)) static word preload_lines(word pages)
{
    word start = cycles();
    for (word place = MEASURED; pages; pages--, place += PAGE + LINE)
        __asm__ volatile("pld [%0]" : : "r"(place));
    return cycles() - start;
}

static void measure_reading(word entries)
{
    for (word run = 0; run < RUNS; run++)
        figures[0][run] = read_entries(entries);
    word result = median(figures[0]);
    say("tlb_read", entries, &result, 1);
}

static void measure_preloads(const char *name, word pages)
{
    word results[3];
    const word counted[] = { EVENT_ACCESS, EVENT_REFILL };
    for (word run = 0; run < RUNS; run++) {
        flush_all();
        figures[0][run] = preload_pages(pages);
    }
    results[0] = median(figures[0]);
    for (word event = 0; event < 2; event++) {
        start_counters(counted[event]);
        for (word run = 0; run < RUNS; run++) {
            flush_all();
            word before = events();
            preload_pages(pages);
            figures[0][run] = events() - before;
        }
        results[1 + event] = median(figures[0]);
    }
    start_counters(EVENT_REFILL);
    say(name, pages, results, 3);
}

/* The same where only the first pages are mapped, and PLD of the others is a walk that finds nothing. */
static void measure_preloads_of_unmapped(word mapped)
{
    static const word counts[] = { 17, 18, 32, 64 };
    for (word page = mapped; page < MOST_PAGES; page++)
        set_entry(TABLES, page, 0);
    complete();
    for (word point = 0; point < sizeof counts / sizeof *counts; point++)
        measure_preloads("preload_unmapped", counts[point]);
    map_measured();
}

/* What a PLD takes that has to walk and finds its line, where the descriptors are in memory: beside `preload`, what the line fills take. */
static void measure_walks(word pages)
{
    for (word run = 0; run < RUNS; run++) {
        flush_all();
        preload_lines(pages);
        complete();
        for (word page = 0; page < pages; page++)
            WRITE_CP15(TABLES + page * 4, c7, c14, 1);
        flush_tlb();
        figures[0][run] = preload_lines(pages);
    }
    word result = median(figures[0]);
    say("walks", pages, &result, 1);
}

/* Saving where all entries of the TLB are valid, and of another space. */
static void measure_full_save(void)
{
    for (word run = 0; run < RUNS; run++) {
        word count;
        flush_all();
        WRITE_CP15(SPACE + 1, c13, c0, 1);
        synchronise();
        access_pages(ENTRIES, PAGE, 0);
        WRITE_CP15(SPACE, c13, c0, 1);
        synchronise();
        figures[0][run] = save(&count);
    }
    word result = median(figures[0]);
    say("full_save", ENTRIES, &result, 1);
}

static void measure_migration(const char *name, word pages, word stride, word (*restore)(word))
{
    for (word run = 0; run < RUNS; run++) {
        word count;
        flush_all();
        figures[COLD][run] = access_pages(pages, stride, 0);
        figures[SAVE][run] = save(&count);
        if (count != pages) {
            print("not all pages are in the TLB\n");
            power_off();
        }
        flush_all();
        figures[RESTORE][run] = restore(count);
        figures[MIGRATED][run] = access_pages(pages, stride, OFFSET);
    }
    say_medians(name, pages);
}

void first(void)
{
    static const word counts[] = { 1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 18, 32, 64 };
    permit_prefetches(0);               /* as the thesis measured, 4.2 */
    start_counters(EVENT_REFILL);
    map_measured();
    for (word entries = 1; entries <= 64; entries *= 2)
        measure_reading(entries);
    for (word pages = 1; pages <= 18; pages++)
        measure_preloads("preload", pages);
    measure_preloads("preload", 32);
    measure_preloads("preload", 64);
    measure_preloads_of_unmapped(17);
    measure_walks(16);
    measure_walks(64);
    measure_full_save();
    for (word point = 0; point < sizeof counts / sizeof *counts; point++) {
        measure_migration("direct_4k", counts[point], PAGE, restore_direct);
        measure_migration("direct_68k", counts[point], APART * PAGE, restore_direct);
        measure_migration("indirect_4k", counts[point], PAGE, restore_indirect);
        measure_migration("indirect_68k", counts[point], APART * PAGE, restore_indirect);
    }
}
