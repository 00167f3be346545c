/* A kernel that does what maintenance on several cores is needed for, at random, and does it right: pages of
 * three sizes are mapped, protected, replaced and unmapped one by one and several at once, spaces entered and
 * their identifiers given out again, tables linked and freed, domains closed and opened, code written, memory
 * used past the caches, cores turned off and on. Meanwhile the other cores read and write, so that old entries
 * are used until their invalidation is complete.
 *
 * The kernel knows what each access must find once it holds the lock, and prints what is found otherwise: it
 * needs no checker to notice. It differs with SEED: two or three cores, global pages in the tables of all
 * spaces or in a table of their own (TTBR1). Compiled with LEFT_OUT, the operation of this name is left out
 * every other time.
 */
#include "machine.h"

#ifndef SEED
#define SEED 1
#endif
#ifndef LEFT_OUT
#define LEFT_OUT NOTHING
#endif

/* What can be left out. */
enum {
    NOTHING, DSB_BEFORE_TLBI, TLBI, TLBI_ELSEWHERE, DSB_AFTER_TLBI, ISB_AFTER_TLBI, INVALID_BETWEEN,
    TLBI_OF_IDENTIFIER, TLBI_OF_TABLE, CODE_CLEAN, CODE_DSB, CODE_INVALIDATE, CODE_INVALIDATE_ELSEWHERE,
    CODE_ISB, CLEAN_BEFORE_UNCACHED, INVALIDATE_AFTER_UNCACHED, DOMAINS_ISB,
};

enum { CORES = 2 + SEED % 2, HAS_GLOBAL_TABLE = SEED / 2 % 2 };
enum { SPACES = 2, NO_SPACE = SPACES, STEPS = 4000 };

/* Identifier 1 is of cores that have just been turned on. */
enum { FIRST_IDENTIFIER = 2, IDENTIFIERS = 7 };

/* Regions of a space: small pages; small pages of frames that others may map, too; large pages; a section
 * or a table with one page, in a domain of its own; and small pages that are global. */
enum { PRIVATE = 0, SHARED = 4, LARGE = 8, MEGABYTE = 10, GLOBAL = 11, REGIONS = 13 };

/* Frames, by what they can be mapped as. The small ones also become tables. */
enum { SMALL_FRAMES = 16, SHARED_FRAMES = 18, LARGE_FRAMES = 24, FRAMES = 28, NO_FRAME = FRAMES };

/* Bytes of a frame: what its region is checked by; code; what is stored without the lock; what is used past the
 * caches, too. One line each. */
enum { VALUE = 0, CODE = 64, STORED = 128, PAST_CACHES = 192 };

/* One value, so that it does not matter which of two stores another core sees first. */
enum { STORED_VALUE = 1 };

/* Where the regions are: below 2 GB, the global ones above. */
enum { AREA = 0x60000000, GLOBAL_AREA = 0x80100000 };

enum { GLOBAL_PAGES_TABLE = 0x40108800, GLOBAL_TABLE = 0x4010c000 };
enum { NO_ENTRY = 0, COARSE = 1, SECTION = 2, OWN_DOMAIN = 1 << 5 };

/* What a core may do with the domain of region MEGABYTE. */
enum { NO_ACCESS = 0, CLIENT = 1, MANAGER = 3 };

enum { CPU_OFF = 0x84000002, STACK = 4096 };

struct region {
    word frame, table;          /* the frame of the second-level table, or NO_FRAME */
    word writable, execute_never;
    word code;                  /* what a call returns; 0 if there is no code */
};

static struct region regions[SPACES][REGIONS];
static word value_of[FRAMES], mapped_by[FRAMES];
static word identifier[SPACES] = {FIRST_IDENTIFIER, FIRST_IDENTIFIER + 1};
static word space_of[CORES], domain_access[CORES], random_state[CORES], steps_of[CORES], is_off[CORES];
static word coin_state = SEED, values, wrong, finished;
static volatile word lock;

static const word tables[SPACES] = {TABLE, OTHER_TABLE};
static const word page_tables[SPACES] = {PAGES_TABLE, OTHER_PAGES_TABLE};

static word next_random(word *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static word below(word core, word limit) { return (next_random(&random_state[core]) >> 8) % limit; }

/* The state of its own lets the choice of steps alone. */
static word left_out(word operation)
{
    return operation == LEFT_OUT && next_random(&coin_state) >> 31 == 0;
}

#define UNLESS_LEFT_OUT(operation, statement) do { if (!left_out(operation)) statement; } while (0)

static void take(void)
{
    word failed, value;
    do {
        __asm__ volatile("ldrex %0, [%1]" : "=r"(value) : "r"(&lock) : "memory");
        failed = value;
        if (!value)
            __asm__ volatile("strex %0, %1, [%2]" : "=&r"(failed) : "r"(1), "r"(&lock) : "memory");
    } while (failed);
    data_barrier();
    UNLESS_LEFT_OUT(CODE_ISB, synchronise());   /* as an exception would: other cores write code */
}

static void release(void)
{
    data_barrier();
    lock = 0;
    complete();
}

/* A data abort returns to the instruction behind the access, with R1 set; a call that is refused, to its
 * caller, with the result 0. */
__asm__(
    ".align 5\n"
    "random_vectors: b . ; b undefined ; b . ; b 2f ; b 1f\n"
    "1: mov r1, #1\n"
    "   subs pc, lr, #4\n"
    "2: cps #0x13\n"
    "   mov r0, #0\n"
    "   bx lr\n");
extern char random_vectors[];

/* Whether it was refused. */
__attribute__((noinline)) static word load_fails(word address, word *found)
{
    register word failed __asm__("r1") = 0;
    word value = 0;
    __asm__ volatile("ldr %0, [%2]" : "+&r"(value), "+&r"(failed) : "r"(address) : "memory");
    *found = value;
    return failed;
}

__attribute__((noinline)) static word store_fails(word address, word value)
{
    register word failed __asm__("r1") = 0;
    __asm__ volatile("str %1, [%2]" : "+&r"(failed) : "r"(value), "r"(address) : "memory");
    return failed;
}

__attribute__((noinline)) static void expect(const char *what, word region, word found, word expected)
{
    if (found == expected || wrong++ > 20)
        return;
    print(what);
    print(" at region ");
    print_number(region);
    print(": ");
    print_number(found);
    print(" for ");
    print_number(expected);
    print("\n");
}

static word frame_address(word frame)
{
    if (frame < SHARED_FRAMES)
        return 0x40200000 + (frame << 12);
    if (frame < LARGE_FRAMES)
        return 0x40300000 + (frame - SHARED_FRAMES << 16);
    return 0x40400000 + (frame - LARGE_FRAMES << 20);
}

static word region_address(word region)
{
    if (region < LARGE)
        return AREA + (region << 12);
    if (region < MEGABYTE)
        return AREA + (region - LARGE + 1 << 16);
    if (region == MEGABYTE)
        return AREA + (1 << 20);
    return GLOBAL_AREA + (region - GLOBAL << 12);
}

static word is_shared(word region) { return region >= SHARED && region < LARGE; }

/* Global regions are the same in all spaces. */
static struct region *region_of(word space, word region) { return &regions[region < GLOBAL ? space : 0][region]; }

static word free_frame(word core, word first, word end)
{
    word frame = first + below(core, end - first);
    return mapped_by[frame] ? NO_FRAME : frame;
}

/* A frame that the region could be given, or NO_FRAME. */
static word frame_for(word core, word region)
{
    if (is_shared(region))
        return SMALL_FRAMES + below(core, SHARED_FRAMES - SMALL_FRAMES);
    if (region == MEGABYTE && below(core, 2))
        return free_frame(core, LARGE_FRAMES, FRAMES);
    if (region >= LARGE && region < MEGABYTE && below(core, 2))
        return free_frame(core, SHARED_FRAMES, LARGE_FRAMES);
    return free_frame(core, 0, SMALL_FRAMES);
}

/* The bits of a page or section without its address. */
static word bits_of(word region, const struct region *here)
{
    word own = region < GLOBAL;
    if (here->frame >= LARGE_FRAMES)
        return SECTION | OWN_DOMAIN | 0x1100c | (here->writable ? 0xc00 : 0x8800) | own << 17;
    if (here->frame >= SHARED_FRAMES)
        return LARGE_PAGE | LARGE_NORMAL | (here->writable ? READ_WRITE : READ_ONLY) | own << 11;
    return SMALL_PAGE | NORMAL | (here->writable ? READ_WRITE : READ_ONLY) | here->execute_never | own << 11;
}

/* Writes the descriptors of a region; no frame makes them invalid. */
static void describe(word space, word region)
{
    const struct region *here = region_of(space, region);
    word value = here->frame == NO_FRAME ? NO_ENTRY : frame_address(here->frame) | bits_of(region, here);
    word index = region_address(region) >> 12 & 0xff;
    if (region == MEGABYTE && here->table == NO_FRAME)
        set_entry(tables[space], (AREA >> 20) + 1, value);
    else if (region == MEGABYTE)
        set_entry(frame_address(here->table), 0, value);
    else if (region >= GLOBAL)
        set_entry(GLOBAL_PAGES_TABLE, index, value);
    else
        for (word entry = 0; entry < (region < LARGE ? 1 : 16); entry++)
            set_entry(page_tables[space], index + entry, entry == 0 || (value & 3) == LARGE_PAGE ? value : NO_ENTRY);
}

/* TLB invalidation on all cores of what a region, or else all of a space, had. */
static void invalidate(word core, word space, word region, word several, word operation)
{
    word address = region_address(region);
    UNLESS_LEFT_OUT(DSB_BEFORE_TLBI, complete());
    if (left_out(operation))
        return;
    word how = below(core, 4);
    if (left_out(TLBI_ELSEWHERE))
        tlb_all_here();
    else if (how == 0 || (several && region >= GLOBAL))
        tlb_all();
    else if (several || (how == 1 && region < GLOBAL))
        tlb_space(identifier[space]);
    else if (how == 2)
        WRITE_CP15(address, c8, c3, 3);         /* TLBIMVAAIS: in all spaces */
    else
        tlb_entry(address | identifier[space]);
    UNLESS_LEFT_OUT(DSB_AFTER_TLBI, complete());
    UNLESS_LEFT_OUT(ISB_AFTER_TLBI, synchronise());
}

/* The core's own space, with the lock. */
static void check(word core, word space, word region)
{
    const struct region *here = region_of(space, region);
    if (space != space_of[core])
        return;
    word access = region == MEGABYTE ? domain_access[core] : CLIENT;
    word unreadable = here->frame == NO_FRAME || access == NO_ACCESS;
    word found, refused = load_fails(region_address(region) + VALUE, &found);
    expect("load refused", region, refused, unreadable);
    if (!refused && here->frame != NO_FRAME)
        expect("load", region, found, value_of[here->frame]);
    refused = store_fails(region_address(region) + VALUE, ++values);
    expect("store refused", region, refused, unreadable || (access == CLIENT && !here->writable));
    if (!refused && here->frame != NO_FRAME)
        value_of[here->frame] = values;
}

/* Gives a frame, which may be NO_FRAME, to a region; nothing that a TLB may hold is left of its last one. */
static void give(word space, word region, word frame, word writable)
{
    struct region *here = region_of(space, region);
    here->frame = frame;
    here->writable = writable;
    here->execute_never = 0;
    here->code = 0;
    if (frame != NO_FRAME && !mapped_by[frame]++) {
        value_of[frame] = ++values;
        put(frame_address(frame) + VALUE, values);
        put(frame_address(frame) + STORED, STORED_VALUE);
        data_barrier();
    }
    describe(space, region);
}

/* Makes a region's descriptors invalid; gives the frame, which may be used for something else once an
 * invalidation is complete. */
static word take_away(word space, word region)
{
    word frame = region_of(space, region)->frame;
    give(space, region, NO_FRAME, 0);
    return frame;
}

static void link(word core, word space, struct region *here)
{
    word table = free_frame(core, 0, SMALL_FRAMES);
    if (table == NO_FRAME)
        return;
    mapped_by[table]++;
    for (word entry = 0; entry < 256; entry++)
        set_entry(frame_address(table), entry, NO_ENTRY);
    complete();
    here->table = table;
    set_entry(tables[space], (AREA >> 20) + 1, frame_address(table) | OWN_DOMAIN | COARSE);
    complete();
}

static void map(word core, word space, word region)
{
    struct region *here = region_of(space, region);
    word frame = frame_for(core, region);
    if (here->frame != NO_FRAME || frame == NO_FRAME)
        return;
    if (region == MEGABYTE && frame >= LARGE_FRAMES && here->table != NO_FRAME)
        return;
    if (region == MEGABYTE && frame < LARGE_FRAMES && here->table == NO_FRAME) {
        mapped_by[frame]++;
        link(core, space, here);
        mapped_by[frame]--;
        if (here->table == NO_FRAME)
            return;
    }
    give(space, region, frame, below(core, 4) != 0);
    complete();
    synchronise();
}

static void unmap(word core, word space, word region)
{
    word frame = take_away(space, region);
    if (frame == NO_FRAME)
        return;
    invalidate(core, space, region, 0, TLBI);
    mapped_by[frame]--;
    check(core, space, region);
}

static void unmap_several(word core, word space)
{
    word frames[REGIONS], last = REGIONS;
    for (word region = 0; region < REGIONS; region++) {
        frames[region] = below(core, 3) ? NO_FRAME : take_away(space, region);
        if (frames[region] != NO_FRAME)
            last = region;
    }
    if (last == REGIONS)
        return;
    invalidate(core, space, last, 1, TLBI);
    for (word region = 0; region < REGIONS; region++)
        if (frames[region] != NO_FRAME)
            mapped_by[frames[region]]--;
}

/* Another frame of the same kind, break before make. */
static void replace(word core, word space, word region)
{
    struct region *here = region_of(space, region);
    word old = here->frame, frame = frame_for(core, region);
    if (old == NO_FRAME || frame == NO_FRAME || old == frame)
        return;
    if (region == MEGABYTE && (old >= LARGE_FRAMES) != (frame >= LARGE_FRAMES))
        return;
    if (!left_out(INVALID_BETWEEN)) {
        take_away(space, region);
        invalidate(core, space, region, 0, TLBI);
    }
    give(space, region, frame, below(core, 4) != 0);
    complete();
    synchronise();
    mapped_by[old]--;
}

static void protect(word core, word space, word region)
{
    struct region *here = region_of(space, region);
    if (here->frame == NO_FRAME)
        return;
    if (region < SHARED && below(core, 2))
        here->execute_never ^= 1;
    else
        here->writable ^= 1;
    describe(space, region);
    invalidate(core, space, region, 0, TLBI);
    check(core, space, region);
}

static void unlink(word core, word space)
{
    struct region *here = region_of(space, MEGABYTE);
    if (here->table == NO_FRAME || here->frame != NO_FRAME)
        return;
    set_entry(tables[space], (AREA >> 20) + 1, NO_ENTRY);
    invalidate(core, space, MEGABYTE, 0, TLBI_OF_TABLE);
    mapped_by[here->table]--;
    here->table = NO_FRAME;
}

static void enter(word core, word space)
{
    space_of[core] = space;
    enter_space(tables[space], identifier[space]);
}

/* Another identifier for a space that no other core is in. */
static void renew(word core, word space)
{
    word number = FIRST_IDENTIFIER + below(core, IDENTIFIERS);
    for (word other = 0; other < CORES; other++)
        if (other != core && space_of[other] == space)
            return;
    if (number == identifier[0] || number == identifier[1])
        return;
    UNLESS_LEFT_OUT(TLBI_OF_IDENTIFIER, tlb_space(number));
    complete();
    identifier[space] = number;
    enter(core, space);
}

static void change_domains(word core)
{
    static const word choices[] = {NO_ACCESS, CLIENT, MANAGER};
    domain_access[core] = choices[below(core, 3)];
    WRITE_CP15(CLIENT | domain_access[core] << 2, c3, c0, 0);   /* DACR */
    UNLESS_LEFT_OUT(DOMAINS_ISB, synchronise());
    check(core, space_of[core], MEGABYTE);
}

static void write_code(word core, word region)
{
    struct region *here = region_of(space_of[core], region);
    if (here->frame == NO_FRAME || region >= SHARED)
        return;
    word written = frame_address(here->frame) + CODE, executed = region_address(region) + CODE;
    here->code = 1 + (here->code + below(core, 100)) % 200;
    put_function(written, here->code);
    UNLESS_LEFT_OUT(CODE_CLEAN, clean_to_unification(written));
    UNLESS_LEFT_OUT(CODE_DSB, complete());
    if (left_out(CODE_INVALIDATE_ELSEWHERE))
        invalidate_code_here();
    else
        UNLESS_LEFT_OUT(CODE_INVALIDATE, invalidate_code_line(executed));
    complete();
    synchronise();
}

static void call_code(word core, word region)
{
    struct region *here = region_of(space_of[core], region);
    if (here->code)
        expect("call", region, call(region_address(region) + CODE), here->execute_never ? 0 : here->code);
}

static void use_past_caches(word core, word region)
{
    word frame = region_of(space_of[core], region)->frame;
    if (frame == NO_FRAME)
        return;
    word cached = frame_address(frame) + PAST_CACHES, uncached = cached + (UNCACHED - 0x40000000);
    put(cached, ++values);
    UNLESS_LEFT_OUT(CLEAN_BEFORE_UNCACHED, clean_and_invalidate(cached));
    complete();
    expect("uncached", region, use(uncached), values);
    expect("cached", region, use(cached), values);
    put(uncached, ++values);
    complete();
    UNLESS_LEFT_OUT(INVALIDATE_AFTER_UNCACHED, invalidate_data(cached));
    complete();
    expect("cached", region, use(cached), values);
}

/* With the lock, which it releases; the core begins again in other(). Its stack is first used past the caches
 * then. */
__attribute__((noinline)) static void go_off(word core)
{
    extern char stacks[];
    is_off[core] = 1;
    space_of[core] = NO_SPACE;
    release();
    for (word line = 0; line < STACK; line += 64)
        clean_and_invalidate((word)stacks + core * STACK + line);
    complete();
    hypervisor_call(CPU_OFF, 0, 0, 0);
}

static void turn_on_again(void)
{
    for (word core = 1; core < CORES; core++)
        if (is_off[core] && turn_on(core))
            is_off[core] = 0;
}

static void step(word core)
{
    word own = space_of[core], space = below(core, 4) ? own : !own, region = below(core, REGIONS);
    switch (below(core, 22)) {
    case 0: case 1: case 2: case 3: map(core, space, region); break;
    case 4: unmap(core, space, region); break;
    case 5: if (!below(core, 4)) unmap_several(core, space); break;
    case 6: replace(core, space, region); break;
    case 7: protect(core, space, region); break;
    case 8: enter(core, space); break;
    case 9: renew(core, space); break;
    case 10: use_past_caches(core, region); break;
    case 11: unlink(core, space); break;
    case 12: write_code(core, region % SHARED); break;
    case 13: case 14: case 15: call_code(core, region % SHARED); break;
    case 16: change_domains(core); break;
    case 17: if (core == 0) turn_on_again(); break;
    default: check(core, own, region);
    }
}

/* Whatever is there: without the lock, an access may be refused or be served by an old entry. */
static void use_without_lock(word core)
{
    word region = below(core, REGIONS), address = region_address(region) + STORED, found;
    if (region >= LARGE && region < MEGABYTE)
        address += below(core, 16) << 12;
    if (region == MEGABYTE)
        address += below(core, 256) << 12;
    if (is_shared(region) || below(core, 2))
        load_fails(address, &found);
    else
        store_fails(address, STORED_VALUE);
}

/* A core that has just been turned on takes its steps, until it goes off. */
static void wander(word core)
{
    WRITE_CP15(random_vectors, c12, c0, 0);     /* VBAR */
    if (HAS_GLOBAL_TABLE) {
        WRITE_CP15(GLOBAL_TABLE | 0x4a, c2, c0, 1);     /* TTBR1 */
        synchronise();
        WRITE_CP15(1, c2, c0, 2);               /* TTBCR.N: for the upper 2 GB */
    }
    synchronise();
    take();
    domain_access[core] = NO_ACCESS;
    enter(core, 0);
    release();
    while (steps_of[core]++ < STEPS) {
        take();
        if (core != 0 && !below(core, 200))
            return go_off(core);
        step(core);
        release();
        for (word uses = below(core, 8); uses; uses--)
            use_without_lock(core);
    }
    take();
    finished++;
    release();
}

void other(word core) { wander(core); }

void first(void)
{
    for (word entry = 0; entry < 256; entry++)
        set_entry(GLOBAL_PAGES_TABLE, entry, NO_ENTRY);
    for (word entry = VIEW >> 20; entry < 0x1000; entry++)
        set_entry(GLOBAL_TABLE, entry, entry == VIEW >> 20 ? NO_ENTRY : use(TABLE + 4 * entry));
    for (word space = 0; space < SPACES; space++) {
        set_entry(tables[space], AREA >> 20, page_tables[space] | COARSE);
        set_entry(HAS_GLOBAL_TABLE ? GLOBAL_TABLE : tables[space], GLOBAL_AREA >> 20, GLOBAL_PAGES_TABLE | COARSE);
        for (word region = 0; region < REGIONS; region++)
            regions[space][region] = (struct region){NO_FRAME, NO_FRAME, 0, 0, 0};
    }
    for (word core = 0; core < CORES; core++) {
        random_state[core] = SEED * 3 + core + 1;
        is_off[core] = core != 0;
        space_of[core] = NO_SPACE;
    }
    complete();
    turn_on_again();
    wander(0);
    for (word ended = 0; !ended;) {
        take();
        turn_on_again();
        ended = finished == CORES;
        release();
        for (word uses = below(0, 64); uses; uses--)     /* or the others might never get the lock */
            use_without_lock(0);
    }
}
