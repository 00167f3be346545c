/* TLB migration by the interfaces that the thesis of 2018 designs (chapters 5 and 6), and by ours, version 5, on a
 * core that has them (docs/tlb-migration.md). Saving, restoring and the accesses of the 68 KB benchmark are measured for
 * each version, and those of the 4 KB benchmark for the last two; then a core saves its entries and another restores
 * them while no table maps their pages. With RUNS = 0 only that, streams of used entries, and an access by user mode.
 */
#include "pages.h"

#ifndef ENTRIES
#define ENTRIES 64                  /* of the data TLB */
#endif

#define PORT_WRITE(value, crm, op2) \
    __asm__ volatile("mcr p15, 3, %0, c15, " #crm ", " #op2 : : "r"(value) : "memory")
#define PORT_READ(value, crm, op2) \
    __asm__ volatile("mrc p15, 3, %0, c15, " #crm ", " #op2 : "=r"(value) : : "memory")

/* USED: of the start of a stream; AGES: how many of the ages it leaves out, in the same place. UNDER_WAY: of the state of version 5, whose lower bits are the number of entries. */
enum { VALID = 1, COMMIT = 0xffffffff, USED = 1 << 8, AGES = 4, UNDER_WAY = 1u << 31 };
/* Upper half of an entry that is read by index: its space, and whether it is global. */
enum { SPACE_SHIFT = 23, SPACE_MASK = 0xffu << SPACE_SHIFT, GLOBAL = 1u << 31 };

/* From the start of a line on, so that times do not depend on where the linker puts them. */
static word saved[4 * ENTRIES] __attribute__((aligned(64))), saved_again[4 * ENTRIES];

static inline word is_of_space(word low, word high)
{
    return low & VALID && (high & (GLOBAL | SPACE_MASK)) == SPACE << SPACE_SHIFT;
}

/* Each of these gives the number of words that it stored. */
static word save_1(word *to)
{
    word *next = to;
    for (word index = 0; index < ENTRIES; index++) {
        word low, high, reserved;
        PORT_WRITE(index, c5, 0);
        PORT_READ(low, c5, 1);
        PORT_READ(high, c5, 2);
        PORT_READ(reserved, c5, 3);
        if (is_of_space(low, high)) {
            *next++ = low;
            *next++ = high;
            *next++ = reserved;
        }
    }
    return next - to;
}

static word save_2(word *to)
{
    word *next = to;
    for (word index = 0; index < ENTRIES; index++) {
        word low, high;
        PORT_WRITE(index, c6, 0);
        PORT_READ(low, c6, 1);
        PORT_READ(high, c6, 2);
        if (is_of_space(low, high)) {
            *next++ = low;
            *next++ = high;
        }
    }
    return next - to;
}

#define STREAM(crm, start) \
    word *next = to, low, high; \
    PORT_WRITE(start, crm, 0); \
    for (;;) { \
        PORT_READ(low, crm, 1); \
        PORT_READ(high, crm, 2); \
        if (!(low | high)) \
            return next - to; \
        *next++ = low; \
        *next++ = high; \
    }

static word save_3(word *to) { STREAM(c7, SPACE) }
static word save_4(word *to) { STREAM(c8, SPACE) }

/* The space may have another number by now; what is saved by index has the old one. */
static void restore_1(const word *from, word words)
{
    for (const word *end = from + words; from < end; from += 3) {
        PORT_WRITE(from[0], c5, 1);
        PORT_WRITE(from[1] & ~SPACE_MASK | SPACE << SPACE_SHIFT, c5, 2);
        PORT_WRITE(from[2], c5, 3);
        PORT_WRITE(COMMIT, c5, 0);
    }
}

static void restore_2(const word *from, word words)
{
    for (const word *end = from + words; from < end; from += 2) {
        PORT_WRITE(from[0], c6, 1);
        PORT_WRITE(from[1] & ~SPACE_MASK | SPACE << SPACE_SHIFT, c6, 2);
    }
}

static void restore_3(const word *from, word words)
{
    PORT_WRITE(SPACE, c7, 0);
    for (const word *end = from + words; from < end; from += 2) {
        PORT_WRITE(from[0], c7, 1);
        PORT_WRITE(from[1], c7, 2);
    }
}

static void restore_4(const word *from, word words)
{
    PORT_WRITE(SPACE, c8, 0);
    for (const word *end = from + words; from < end; from += 2) {
        PORT_WRITE(from[0], c8, 1);
        PORT_WRITE(from[1], c8, 2);
    }
    PORT_WRITE(0, c8, 1);
    PORT_WRITE(0, c8, 2);
}

static const struct {
    const char *name;
    word (*save)(word *to);
    void (*restore)(const word *from, word words);
} versions[] = {
    { "v1", save_1, restore_1 },
    { "v2", save_2, restore_2 },
    { "v3", save_3, restore_3 },
    { "v4", save_4, restore_4 },
};
enum { VERSIONS = sizeof versions / sizeof *versions };

static void measure(const char *name, word version, word pages, word stride)
{
    for (word run = 0; run < RUNS; run++) {
        flush_all();
        figures[COLD][run] = access_pages(pages, stride, 0);
        word start = cycles(), words = versions[version].save(saved);
        figures[SAVE][run] = cycles() - start;
        flush_all();
        start = cycles();
        versions[version].restore(saved, words);
        figures[RESTORE][run] = cycles() - start;
        figures[MIGRATED][run] = access_pages(pages, stride, OFFSET);
    }
    say_medians(name, pages);
}

/* What the other core does while this one waits for it. */
static void (*volatile job)(void);
static volatile word go, done;

void other(word core)
{
    (void)core;
    for (word turn = 1;; turn++) {
        while (go != turn)
            ;
        data_barrier();
        job();
        data_barrier();
        done = turn;
    }
}

static void on_other_core(void (*what)(void))
{
    job = what;
    data_barrier();
    go++;
    while (done != go)
        ;
    data_barrier();
}

static void start_its_counters(void) { start_counters(0); }

/* Version 5: this core takes over what another core's TLB has of its space; waits until all is there. */
__attribute__((noinline)) static word take_over(word from)
{
    word state;
    PORT_WRITE(from, c10, 0);
    do
        PORT_READ(state, c10, 0);
    while (state & UNDER_WAY);
    return state;
}

static struct { word pages, stride, restore, migrated, transfer, entered; } taken;

/* The access begins while entries are under way. Then, once more, how long they all take. */
static void take_over_and_access(void)
{
    flush_all();
    word start = cycles();
    PORT_WRITE(0, c10, 0);
    taken.restore = cycles() - start;
    taken.migrated = access_pages(taken.pages, taken.stride, OFFSET);
    flush_all();
    /* From itself there is nothing; now its code is in the TLB. */
    take_over(1);
    start = cycles();
    word entered = take_over(0);
    taken.transfer = cycles() - start;
    taken.entered = entered;
}

static void measure_transfer(const char *name, word pages, word stride)
{
    taken.pages = pages;
    taken.stride = stride;
    for (word run = 0; run < RUNS; run++) {
        flush_all();
        figures[COLD][run] = access_pages(pages, stride, 0);
        flush_level(0);
        flush_level(1);
        on_other_core(take_over_and_access);
        figures[SAVE][run] = taken.transfer;
        figures[RESTORE][run] = taken.restore;
        figures[MIGRATED][run] = taken.migrated;
    }
    word transfer[] = { median(figures[SAVE]), taken.entered };
    print("transfer_");
    say(name, pages, transfer, 2);
    /* Nothing is saved. */
    for (word run = 0; run < RUNS; run++)
        figures[SAVE][run] = 0;
    say_medians(name, pages);
}

/* Pages of the test, with all kinds of permissions that can be read, attributes and sizes; each has its number in
 * a word. */
enum { TESTED = 48, SECTIONS = 4, FIRST_SECTION = MEASURED + (16 << 20), SECTION_FRAMES = 0x48000000 };

static word tested_address(word number)
{
    return number < SECTIONS ? FIRST_SECTION + (number << 20) : MEASURED + number * APART * PAGE;
}

static word frame_of(word number)
{
    return number < SECTIONS ? SECTION_FRAMES + (number << 20) : FRAMES + (number * 29 % 1024) * PAGE;
}

enum { NOWHERE, AS_TESTED, WRITABLE };

static void map_tested(word how)
{
    static const word small[] = { 0x030, 0x010, 0x220, 0x031, 0x230 };
    static const word attributes[] = { 0x44c, 0x04c, 0x00c, 0x040 };
    for (word number = 0; number < TESTED; number++) {
        word place = tested_address(number) - MEASURED, value = 0;
        if (number < SECTIONS) {
            if (how != NOWHERE)
                value = frame_of(number) | 0x31c0e | (number & 1 ? 0x10 : 0);
            set_entry(TABLE, (MEASURED + place) >> 20, value);
        } else {
            word kind = how == WRITABLE ? READ_WRITE | NORMAL : small[number % 5] | attributes[number % 4];
            if (how != NOWHERE)
                value = frame_of(number) | SMALL_PAGE | NOT_GLOBAL | kind;
            set_entry(TABLES, place >> 12, value);
        }
    }
    complete();
}

static volatile word version_tested, words_saved;

/* A wrong entry gives another page's number, a missing one an exception. */
static word read_tested(void)
{
    word wrong = 0;
    for (word number = 0; number < TESTED; number++)
        wrong += *(volatile word *)tested_address(number) != number;
    return wrong;
}

/* Restores what the other core saved, and reads each page, which no table maps. */
static void restore_tested(void)
{
    flush_tlb();
    versions[version_tested].restore(saved, words_saved);
    word wrong = read_tested(), words = versions[version_tested].save(saved_again);
    wrong += words != words_saved;
    /* The order of the slots may be another; an entry is as it was. */
    for (word at = 0; version_tested != 3 && at < words; at += version_tested ? 2 : 3) {
        word found = 0;
        for (word place = 0; place < words_saved; place += version_tested ? 2 : 3)
            found |= saved[place] == saved_again[at] && saved[place + 1] == saved_again[at + 1];
        wrong += !found;
    }
    word results[] = { 4 * words_saved, wrong };
    say(version_tested == 0 ? "restored_v1" : version_tested == 1 ? "restored_v2"
        : version_tested == 2 ? "restored_v3" : "restored_v4", TESTED, results, 2);
}

/* The same by version 5, from the other core's TLB as it is. */
static void take_over_tested(void)
{
    flush_tlb();
    word entered = take_over(0), wrong = read_tested();
    wrong += save_3(saved_again) != words_saved;
    word results[] = { entered, wrong };
    say("taken_over_v5", TESTED, results, 2);
}

static void test_on_another_core(void)
{
    map_tested(WRITABLE);
    flush_tlb();
    for (word number = 0; number < TESTED; number++)
        *(volatile word *)tested_address(number) = number;
    flush_all();
    map_tested(NOWHERE);
    for (word version = 0; version <= VERSIONS; version++) {
        tlb_all();
        complete();
        map_tested(AS_TESTED);
        synchronise();
        for (word number = 0; number < TESTED; number++)
            *(volatile word *)tested_address(number);
        words_saved = version == VERSIONS ? save_3(saved) : versions[version].save(saved);
        map_tested(NOWHERE);
        version_tested = version;
        on_other_core(version == VERSIONS ? take_over_tested : restore_tested);
    }
}

static void measure_all(void)
{
    static const word counts[] = { 1, 2, 3, 4, 5, 6, 7, 8, 16, 21, 32, 64 };
    start_counters(0);
    for (word version = 0; version < VERSIONS; version++)
        for (word point = 0; point < sizeof counts / sizeof *counts; point++)
            measure(versions[version].name, version, counts[point], APART * PAGE);
    for (word point = 0; point < sizeof counts / sizeof *counts; point++)
        measure("v4_4k", VERSIONS - 1, counts[point], PAGE);
    turn_on(1);
    on_other_core(start_its_counters);
    for (word point = 0; point < sizeof counts / sizeof *counts; point++) {
        measure_transfer("v5", counts[point], APART * PAGE);
        measure_transfer("v5_4k", counts[point], PAGE);
    }
}

static word save_used_3(word *to) { STREAM(c7, SPACE | USED) }
static word save_used_4(word *to) { STREAM(c8, SPACE | USED) }

/* Of entries that were restored, those that were read since are used. */
static void test_used(const char *name, word version, word (*save_used)(word *to), word bytes)
{
    enum { RESTORED = 32, READ = 12 };
    tlb_all();
    complete();
    map_measured();
    flush_all();
    access_pages(RESTORED, APART * PAGE, 0);
    word words = versions[version].save(saved);
    flush_tlb();
    versions[version].restore(saved, words);
    word unread = save_used(saved) * 4 / bytes;
    access_pages(READ, APART * PAGE, 0);
    word results[] = { words * 4 / bytes, unread, save_used(saved) * 4 / bytes };
    say(name, READ, results, 3);
}

enum { TAKEN_OVER = 32, READ_OF_THEM = 12 };

static void take_over_and_read(void)
{
    flush_tlb();
    taken.entered = take_over(0);
    access_pages(READ_OF_THEM, APART * PAGE, 0);
}

/* The same by version 5: what the other core took over and did not read stays behind. */
static void test_used_5(void)
{
    tlb_all();
    complete();
    map_measured();
    access_pages(TAKEN_OVER, APART * PAGE, 0);
    on_other_core(take_over_and_read);
    flush_tlb();
    word results[] = { taken.entered, take_over(1 | USED) };
    say("used_v5", READ_OF_THEM, results, 2);
}

static word taken_by_age[AGES];

static void take_over_by_age(void)
{
    for (word left_out = 0; left_out < AGES; left_out++) {
        flush_tlb();
        taken_by_age[left_out] = take_over(left_out * USED);
    }
}

static word save_by_age_3(word *to, word left_out) { STREAM(c7, SPACE | left_out * USED) }

/* What was read before a mark is older than what was read after it. */
static void test_ages(void)
{
    static const word reads[] = { 32, 12, 5 };
    tlb_all();
    complete();
    map_measured();
    for (word read = 0; read < sizeof reads / sizeof *reads; read++) {
        PORT_WRITE(0, c10, 1);
        access_pages(reads[read], APART * PAGE, 0);
    }
    word streamed[AGES];
    for (word left_out = 0; left_out < AGES; left_out++)
        streamed[left_out] = save_by_age_3(saved, left_out) / 2;
    say("ages_v3", reads[1], streamed, AGES);
    on_other_core(take_over_by_age);
    say("ages_v5", reads[1], taken_by_age, AGES);
}

/* User mode has no access: this ends with an exception. */
static void read_as_user(void)
{
    word low;
    __asm__ volatile("cps #16");
    PORT_READ(low, c7, 1);
    say("user mode reads", 1, &low, 1);
}

void first(void)
{
    map_measured();
    if (RUNS)
        measure_all();
    else
        turn_on(1);
    test_on_another_core();
    if (!RUNS) {
        test_used("used_v3", 2, save_used_3, 8);
        test_used("used_v4", 3, save_used_4, 7);
        test_used_5();
        test_ages();
        read_as_user();
    }
}
