/* What memory costs a Cortex-A7, as a program on it can measure: read latency by size of the working set, with
 * one chain of reads and with two at once, the cost of TLB misses and walks, of PLD over consecutive pages, and
 * of reading the TLB, and of reading and writing one line after the other. Prints one line a figure: a name, a size, and cycles in hundredths or in all.
 *
 * A chain is a linear congruential generator whose next state takes up the (zero) value that was read, as in
 * published measurements: the address of a read depends on the read before.
 */
#include "counters.h"

enum {
    KILOBYTE = 1024, MEGABYTE = 1 << 20, PAGE = 4096,
    LINE = 64,
    TABLES = 0x40300000,        /* second-level tables of the measured memory */
    FRAMES = 0x44000000,        /* its pages, in random order */
    MEASURED = 0xa0000000,      /* where it is mapped */
    MOST = 64 * MEGABYTE,
    READS = 20000,
    EVENT_TLB_REFILL = 0x05,
};

static word seed = 1;

static word draw(void)
{
    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

/* Pages of the measured memory lie in random frames, as an operating system's do. */
static void map_measured(void)
{
    static unsigned short frames[MOST / PAGE];
    word pages = MOST / PAGE;
    for (word page = 0; page < pages; page++)
        frames[page] = page;
    for (word page = pages - 1; page > 0; page--) {
        word other = draw() % (page + 1), frame = frames[page];
        frames[page] = frames[other];
        frames[other] = frame;
    }
    for (word page = 0; page < pages; page++)
        set_entry(TABLES, page, FRAMES + frames[page] * PAGE | SMALL_PAGE | NORMAL | READ_WRITE);
    for (word megabyte = 0; megabyte < MOST / MEGABYTE; megabyte++)
        set_entry(TABLE, (MEASURED >> 20) + megabyte, TABLES + megabyte * KILOBYTE | 1);
    complete();
    tlb_all();
    complete();
    synchronise();
}

static void say(const char *name, word size, word value)
{
    print(name);
    print(" ");
    print_number(size);
    print(" ");
    print_number(value);
    print("\n");
}

static word above(word value, word base)
{
    return value > base ? value - base : 0;
}

#define NEXT(state) (state * 1664525 + 1013904223)
#define READ(state, mask) *(volatile word *)(MEASURED + (state >> 4 & mask & ~3u))

__attribute__((noinline)) static word one_chain(word bytes)
{
    word state = 1, mask = bytes - 1;
    for (word read = 0; read < 2 * READS; read++) {
        state = NEXT(state);
        state += READ(state, mask);
    }
    word start = cycles();
    for (word read = 0; read < READS; read++) {
        state = NEXT(state);
        state += READ(state, mask);
    }
    return cycles() - start;
}

__attribute__((noinline)) static word two_chains(word bytes)
{
    word state = 1, other = 12345, mask = bytes - 1;
    word start = cycles();
    for (word read = 0; read < READS; read++) {
        state = NEXT(state);
        other = NEXT(other);
        word one = READ(state, mask), two = READ(other, mask);
        state += one;
        other += two;
    }
    return cycles() - start;
}

/* Reads a word of each page in turn, each in another cache line. */
__attribute__((noinline)) static word touch_pages(word pages, word rounds)
{
    word sum = 0, start = cycles();
    for (word round = 0; round < rounds; round++)
        for (word page = 0; page < pages; page++)
            sum += *(volatile word *)(MEASURED + page * PAGE + (page * 64 & 0xfc0));
    return cycles() - start + 0 * sum;
}

__attribute__((noinline)) static word read_tlb(word entries)
{
    word start = cycles(), middle;
    for (word entry = 0; entry < entries; entry++)
        read_entry(entry, &middle);
    return cycles() - start;
}

/* The valid entries of the main TLB for small pages of the measured memory, as the TLB says. */
static word count_valid(void)
{
    word valid = 0;
    for (word way = 0; way < 2; way++)
        for (word index = 0; index < 128; index++) {
            word middle, low = read_entry(way << 31 | index, &middle);
            valid += low & 1 && (low >> 5 & 0x1fff) == MEASURED >> 19;
        }
    return valid;
}

__attribute__((noinline)) static word preload_pages(word pages)
{
    word start = cycles();
    for (word page = 0; page < pages; page++)
        __asm__ volatile("pld [%0]" : : "r"(MEASURED + page * PAGE));
    return cycles() - start;
}

/* Empties the TLB and, by reading other memory, the caches of the measured pages. */
static void evict(void)
{
    one_chain(MOST);
    tlb_all();
    complete();
    synchronise();
}

__attribute__((noinline)) static word read_lines(word lines)
{
    word sum = 0, start = cycles();
    for (word line = 0; line < lines; line++)
        sum += *(volatile word *)(MEASURED + line * LINE);
    return cycles() - start + 0 * sum;
}

__attribute__((noinline)) static word write_lines(word lines)
{
    word start = cycles();
    for (word line = 0; line < lines; line++)
        *(volatile word *)(MEASURED + line * LINE) = 0;
    return cycles() - start;
}

void other(word core) { (void)core; }

void first(void)
{
    start_counters(EVENT_TLB_REFILL);
    map_measured();
    word base = one_chain(4 * KILOBYTE), base_of_two = two_chains(4 * KILOBYTE);
    for (word bytes = 32 * KILOBYTE; bytes <= MOST; bytes *= 2) {
        word one = one_chain(bytes), two = two_chains(bytes);
        say("read", bytes / KILOBYTE, above(one, base) / (READS / 100));
        say("read_two", bytes / KILOBYTE, above(two, base_of_two) / (READS / 100));
    }
    for (word pages = 8; pages <= 512; pages *= 2) {
        touch_pages(pages, 4);
        word walks = events(), took = touch_pages(pages, 8);
        walks = events() - walks;
        say("page", pages, took * 100 / (8 * pages));
        say("page_walks", pages, walks * 100 / (8 * pages));
    }
    read_tlb(1);
    for (word entries = 1; entries <= 256; entries *= 4)
        say("tlb_read", entries, read_tlb(entries));
    tlb_all();
    complete();
    synchronise();
    touch_pages(64, 1);
    say("tlb_valid", 64, count_valid());
    preload_pages(1);
    for (word pages = 1; pages <= 64; pages *= 2) {
        evict();
        say("preload", pages, preload_pages(pages));
    }
    for (word prefetches = 0; prefetches <= 3; prefetches++) {
        permit_prefetches(prefetches);
        evict();
        say("next_read", prefetches, read_lines(4096) * 25 / 1024);
        evict();
        say("next_written", prefetches, write_lines(4096) * 25 / 1024);
    }
}
