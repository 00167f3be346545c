/* Does at random what makes copies stale, what puts it right, and accesses that would see the difference, and prints
 * after each step what the access found and how many reports there are so far. run_random.py compares this with the
 * same steps of the reference: which step is next never depends on what an access found. */
#include "random.h"

/* What RIGHT can lack. */
enum { NOTHING, DATA_CLEAN, CODE_INVALIDATE, DATA_TLB, CODE_TLB, TLB_OF_SLOT, TLB_OF_SECTION, TLB_OF_TABLES,
       MINICACHE_CLEAN, READ_BUFFER };

#ifndef LEFT_OUT
#define LEFT_OUT NOTHING
#endif
#define UNLESS_LEFT_OUT(operation, statement) do { if (LEFT_OUT != operation) statement; } while (0)

enum { STEPS = 256, CONSOLE = 0x101f1000, CHECKER_REPORTS = 0x101ff044 };

enum operation {
    LOAD, LOAD_BYTE, LOAD_HALF, LOAD_TWO, LOAD_AS_USER, SWAP,
    STORE, STORE_BYTE, STORE_HALF, STORE_TWO, STORE_AS_USER, WRITE_CODE, CALL,
    /* tables */
    CHANGE_PAGE, CHANGE_SLOT_PAGE, CHANGE_TINY_PAGE, CHANGE_FOUR_TINY_PAGES, CHANGE_LARGE_PAGE, CHANGE_EXTENDED_PAGE,
    CHANGE_SECTION, CHANGE_TABLES, CHANGE_PROCESS, CHANGE_DOMAINS, CHANGE_SYSTEM_AND_ROM,
    /* maintenance */
    EMPTY_TLB, EMPTY_DATA_TLB, INVALIDATE_DATA_ENTRY, INVALIDATE_CODE_ENTRY,
    CLEAN_LINE, INVALIDATE_LINE, CLEAN_AND_INVALIDATE_LINE, INVALIDATE_CODE_LINE, CLEAN_SLOT, INVALIDATE_SLOT,
    CLEAN_AND_INVALIDATE_SLOT, CLEAN_ALL, CLEAN_AND_INVALIDATE_ALL, INVALIDATE_DATA, INVALIDATE_CODE, DRAIN,
    /* what the reference does not do: it has no caches, and no entry that stays */
    LOCK_DATA_ENTRIES, LOCK_CODE_ENTRIES, UNLOCK_ENTRIES, LOCK_DATA_WAYS, LOCK_CODE_WAYS, CHANGE_CACHES,
    READ_AHEAD, READ_WORD_AHEAD, EMPTY_READ_BUFFER, EMPTY_READ_BUFFER_ENTRY,
    OPERATIONS,
    FIRST_CHANGE = CHANGE_PAGE, FIRST_MAINTENANCE = EMPTY_TLB, FIRST_OF_CACHES = LOCK_DATA_ENTRIES,
};

/* How a descriptor is written: past the cache, into it, into it with a clean. */
enum view { PAST_CACHE, IN_CACHE, CLEANED, VIEWS };

/* Access permissions of domains. */
enum { NO_ACCESS = 0, CLIENT = 1, MANAGER = 3 };

/* A step: what is done, where, to which of the pages, with what value, and what else is to choose. */
struct step {
    enum operation operation;
    word address, page, value, choice;
};

static word random_state, process, has_large_page;

static word next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state >> 7;
}

static word below(word limit) { return next_random() % limit; }

#define ONE_OF(array) (array)[below(sizeof(array) / sizeof *(array))]

/* Few words of few lines, so that aliases meet; the last two are in other quarters of the page. */
static word random_address(void)
{
    static const word offsets[] = {0, 4, 0x10, 0x20, 0x404, 0xffc};
    static const word windows[] = {
        VIEW, VIEW, VIEW, VIEW, VIEW, VIEW, VIEW, VIEW, SLOT_VIEW, SLOT_VIEW,
        CACHED_WINDOW + PAGE_A, CACHED_WINDOW + PAGE_A, NOT_BUFFERED_WINDOW + PAGE_A,
        UNCACHED + PAGE_A, UNCACHED + PAGE_A, BUFFERED_WINDOW + PAGE_A,
    };
    word window = ONE_OF(windows), page = below(window == SLOT_VIEW ? SLOT_PAGES : 4);

    return window + (page << 12) + ONE_OF(offsets);
}

/* Maintenance takes modified addresses. */
static word modified(word address) { return address < SLOT ? address | process * SLOT : address; }

/* C, B and permissions as in a small page: most often all may read and write, sometimes each quarter otherwise. AP 0
 * leaves it to the bits S and R. */
static word page_bits(void)
{
    static const word caching[] = {CACHED, CACHED, CACHED, CACHED, WRITE_THROUGH, BUFFERED, 0, 0};
    static const word access[] = {READ_WRITE, READ_WRITE, READ_WRITE, READ_WRITE, READ_ONLY, 0x550, 0};
    word bits = ONE_OF(caching), permissions = ONE_OF(access);

    return bits | (below(8) ? permissions : next_random() & READ_WRITE);
}

static word random_frame(void) { return PAGE_A + (below(4) << 12); }

static word random_page(void)
{
    word bits = page_bits(), frame = random_frame();

    return below(5) ? frame | bits | SMALL_PAGE : 0;
}

static word random_section(void)
{
    word bits = page_bits();

    switch (below(5)) {
    case 0: return FINE + 2 * VIEW_DOMAIN + FINE_TABLE;
    case 1: return PAGE_A | (bits & (FULL_ACCESS | CACHED)) | VIEW_DOMAIN | SECTION;
    case 2: return 0;
    default: return COARSE + VIEW_DOMAIN + COARSE_TABLE;
    }
}

__attribute__((noinline)) static void write_entry(word physical, word value, enum view view)
{
    word address = (view == PAST_CACHE ? UNCACHED : CACHED_WINDOW) + physical;

    *(volatile word *)address = value;
    if (view == CLEANED || (MAINTENANCE != CARELESS && view == IN_CACHE))
        clean_line(address);
    if (below(8))
        drain();
}

static void write_tiny_pages(word page, word first, word count, word frame, word bits, enum view view)
{
    for (word quarter = first; quarter < first + count; quarter++)
        write_entry(FINE + 16 * page + 4 * quarter, frame ? frame | quarter << 10 | bits | TINY_PAGE : 0, view);
}

/* A large page, or if there is one, small pages in its place: all entries of a large page must be the same (ARM DDI
 * 0100I, B4.7). */
static void change_large_page(void)
{
    word bits = page_bits();

    has_large_page = !has_large_page;
    for (word entry = 0; entry < LARGE_ENTRIES; entry++) {
        word small = PAGE_A | entry % FRAMES << 12 | bits | SMALL_PAGE;
        write_entry(COARSE + 4 * entry, has_large_page ? PAGE_A | bits | LARGE_PAGE : small, IN_CACHE);
    }
}

/* A refused load finds 0. */
#define LOAD_BY(instruction, address, found) \
    __asm__ volatile(instruction " %0, [%1]" : "+&r"(found) : "r"(address) : "memory")
#define STORE_BY(instruction, address, value) \
    __asm__ volatile(instruction " %0, [%1]" : : "r"(value), "r"(address) : "memory")

__attribute__((noinline)) static word load(enum operation operation, word address, word byte)
{
    word found = 0;
    register word first __asm__("r4") = 0, second __asm__("r5") = 0;

    switch (operation) {
    case LOAD_BYTE: LOAD_BY("ldrb", address + byte, found); return found;
    case LOAD_HALF: LOAD_BY("ldrh", address + (byte & 2), found); return found;
    case LOAD_AS_USER: LOAD_BY("ldrt", address, found); return found;
    case LOAD_TWO:
        __asm__ volatile("ldmia %2, {r4, r5}" : "+&r"(first), "+&r"(second) : "r"(address) : "memory");
        return first ^ (second << 1 | second >> 31);
    default: LOAD_BY("ldr", address, found); return found;
    }
}

__attribute__((noinline)) static word swap(word address, word value)
{
    word found = 0;

    __asm__ volatile("swp %0, %2, [%1]" : "+&r"(found) : "r"(address), "r"(value) : "memory");
    return found;
}

__attribute__((noinline)) static void store(enum operation operation, word address, word byte, word value)
{
    register word first __asm__("r4") = value, second __asm__("r5") = value + 1;

    switch (operation) {
    case STORE_BYTE: STORE_BY("strb", address + byte, value >> 8); break;
    case STORE_HALF: STORE_BY("strh", address + (byte & 2), value >> 8); break;
    case STORE_AS_USER: STORE_BY("strt", address, value); break;
    case STORE_TWO:
        __asm__ volatile("stmia %2, {r4, r5}" : : "r"(first), "r"(second), "r"(address) : "memory");
        break;
    default: STORE_BY("str", address, value);
    }
}

/* What the code returns, or NOT_CALLED if the fetch is refused: the handler then returns to the caller. */
__attribute__((noinline)) static word call_code(word address)
{
    enum { NOT_CALLED = 0x999 };
    register word result __asm__("r0") = NOT_CALLED;

    __asm__ volatile("mov lr, pc\n mov pc, %1" : "+r"(result) : "r"(address) : "lr", "memory", "cc");
    return result;
}

/* By set and way (ARM DDI 0198D, table 2-18), or by segment and index (ARM DDI 0151C, 2.3). The Intel cores have no
 * such operation. */
static void maintain_slot(enum operation operation, word address, word choice)
{
#if CORE == ARM926
    word slot = (address & 0xfe0) | choice << 30;
#elif CORE == ARM920
    word slot = (address & 0xe0) | choice % 8 << 26;
#endif
#if CORE == ARM926 || CORE == ARM920
    if (operation == CLEAN_SLOT)
        WRITE_CP15(slot, c7, c10, 2);
    else if (operation == INVALIDATE_SLOT)
        WRITE_CP15(slot, c7, c6, 2);
    else
        WRITE_CP15(slot, c7, c14, 2);
#else
    (void)operation;
    (void)address;
    (void)choice;
#endif
}

static void clean_and_invalidate_line(word address)
{
#if CORE == ARM926 || CORE == ARM920
    WRITE_CP15(address, c7, c14, 1);
#else
    clean_line(address);
    invalidate_line(address);
#endif
}

static void invalidate_code_line(word address)
{
#if CORE == SA1100      /* which has no operation for one line */
    (void)address;
#else
    WRITE_CP15(address, c7, c5, 1);
#endif
}

/* Without invalidating anything: by test and clean (ARM DDI 0198D, table 2-18); on the SA-1100 by loads (278088-004,
 * 6.2.3), at addresses that clean_all has not. */
static void clean_all_and_keep(void)
{
#if CORE == ARM926
    __asm__ volatile("1: mrc p15, 0, r15, c7, c10, 3\n bne 1b" : : : "memory", "cc");
#elif CORE == SA1100
    for (word line = 0; line < 512; line++)
        (void)*(volatile word *)(0xe0008000 + 32 * line);
#endif
}

/* Twice the size of the minicache: SA-1100 512 bytes, XScale 2 KB. */
static void clean_minicache(void)
{
#if CORE == SA1100 || CORE == XSCALE
    for (word line = 0; line < (CORE == SA1100 ? 32 : 128); line++)
        (void)*(volatile word *)(EVICTION + 32 * line);
#endif
}

/* Some ways stay as they are: ARM DDI 0198D, 2.3.10; ARM DDI 0151C, 2.3.10. */
static void lock_ways(enum operation operation, word choice)
{
#if CORE == ARM926
    word locked = choice % 8;
#elif CORE == ARM920
    word locked = choice % 32 << 26;
#endif
#if CORE == ARM926 || CORE == ARM920
    if (operation == LOCK_DATA_WAYS)
        WRITE_CP15(locked, c9, c0, 0);
    else
        WRITE_CP15(locked, c9, c0, 1);
#else
    (void)operation;
    (void)choice;
#endif
}

/* The next walks fill entries that survive the emptying of the TLB, or no longer do: ARM DDI 0198D, 2.3.11; ARM DDI
 * 0151C, 2.3.13. The XScale walks and locks at once (252480-006, 3.5.1.11). */
static void lock_entries(enum operation operation, word address, word choice)
{
#if CORE == ARM926
    (void)address;
    WRITE_CP15(choice % 8 << 26 | (operation != UNLOCK_ENTRIES), c10, c0, 0);
#elif CORE == ARM920
    word base = choice % 16, victim = base + choice / 16 % 16;
    word entries = base << 26 | victim << 20 | (operation != UNLOCK_ENTRIES);
    (void)address;
    if (operation != LOCK_CODE_ENTRIES)
        WRITE_CP15(entries, c10, c0, 0);
    if (operation != LOCK_DATA_ENTRIES)
        WRITE_CP15(entries, c10, c0, 1);
#elif CORE == XSCALE
    (void)choice;
    if (operation == LOCK_DATA_ENTRIES) {
        WRITE_CP15(address, c10, c8, 0);
    } else if (operation == LOCK_CODE_ENTRIES) {
        WRITE_CP15(address, c10, c4, 0);
    } else {
        WRITE_CP15(0, c10, c8, 1);
        WRITE_CP15(0, c10, c4, 1);
    }
#else
    (void)operation;
    (void)address;
    (void)choice;
#endif
}

/* Of the SA-1100: eight words into entry 3, one into entry 2; entry 3 alone, or all (278088-004, 6.4). */
static void use_read_buffer(enum operation operation, word address)
{
#if CORE == SA1100
    switch (operation) {
    case READ_AHEAD: WRITE_CP15(address & ~31, c9, c11, 2); break;
    case READ_WORD_AHEAD: WRITE_CP15(address, c9, c2, 2); break;
    case EMPTY_READ_BUFFER_ENTRY: WRITE_CP15(0, c9, c3, 1); break;
    default: WRITE_CP15(0, c9, c0, 0);
    }
#else
    (void)operation;
    (void)address;
#endif
}

static void change_process(void)
{
    process = below(PROCESSES);
    set_process(process);
}

/* The domain of the program stays. */
static void change_domains(void)
{
    static const word access[] = {CLIENT, CLIENT, CLIENT, CLIENT, CLIENT, MANAGER, NO_ACCESS};
    word view = ONE_OF(access), slots = ONE_OF(access);

    set_domains(CLIENT | view << 2 | slots << 4);
    pipeline_nops();
}

static void change_system_and_rom(void)
{
    static const word choices[] = {0, SYSTEM, ROM};

    set_control((control & ~(SYSTEM | ROM)) | ONE_OF(choices));
}

/* Most often both are on. */
static void change_caches(word choice)
{
    static const word on[8] = {DATA_CACHE, INSTRUCTION_CACHE};
    word both = DATA_CACHE | INSTRUCTION_CACHE, chosen = on[choice % 8];

    set_control((control & ~both) | (chosen ? chosen : both));
}

static void change(const struct step *step)
{
    enum view view = below(VIEWS);
    word page = step->page, bits, frame, owner, table;

    switch (step->operation) {
    case CHANGE_PAGE: write_entry(COARSE + 4 * page, random_page(), view); break;
    case CHANGE_SLOT_PAGE:
        owner = below(4) ? process : below(PROCESSES);
        write_entry(SLOT_COARSE + COARSE_BYTES * owner + 4 * (page % SLOT_PAGES), random_page(), view);
        break;
    case CHANGE_TINY_PAGE:
        bits = page_bits() & TINY_BITS;
        frame = random_frame();
        write_tiny_pages(page, below(4), 1, frame, bits, view);
        break;
    case CHANGE_FOUR_TINY_PAGES:
        bits = page_bits() & TINY_BITS;
        write_tiny_pages(page, 0, 4, below(5) ? random_frame() : 0, bits, view);
        break;
    case CHANGE_LARGE_PAGE: change_large_page(); break;
    case CHANGE_EXTENDED_PAGE:
        if (CORE == XSCALE) {
            bits = (page_bits() & CACHED) | EXTENDED_READ_WRITE | EXTENDED_PAGE;
            frame = random_frame();
            write_entry(COARSE + 4 * page, frame | bits | (below(2) ? EXTENDED_X : 0), view);
        }
        break;
    case CHANGE_SECTION:
        table = below(2) ? TABLE : OTHER_TABLE;
        write_entry(table + 4 * (VIEW >> 20), random_section(), view);
        break;
    case CHANGE_TABLES: set_table(below(2) ? TABLE : OTHER_TABLE); break;
    case CHANGE_PROCESS: change_process(); break;
    case CHANGE_DOMAINS: change_domains(); break;
    default: change_system_and_rom();
    }
}

static void maintain(const struct step *step)
{
    word address = modified(step->address);

    switch (step->operation) {
    case EMPTY_TLB: tlb_all(); break;
    case EMPTY_DATA_TLB: WRITE_CP15(0, c8, c6, 0); break;
    case INVALIDATE_DATA_ENTRY: dtlb_entry(address); break;
    case INVALIDATE_CODE_ENTRY: itlb_entry(address); break;
    case CLEAN_LINE: clean_line(address); break;
    case INVALIDATE_LINE: invalidate_line(address); break;
    case CLEAN_AND_INVALIDATE_LINE: clean_and_invalidate_line(address); break;
    case INVALIDATE_CODE_LINE: invalidate_code_line((address & ~0xfff) | CODE); break;
    case CLEAN_SLOT: case INVALIDATE_SLOT: case CLEAN_AND_INVALIDATE_SLOT:
        maintain_slot(step->operation, step->address, step->choice);
        break;
    case CLEAN_ALL: clean_all_and_keep(); break;
    case CLEAN_AND_INVALIDATE_ALL: clean_all(1, 1); break;
    case INVALIDATE_DATA:
        if (step->page == 0)        /* seldom: all that is dirty is lost */
            dcache_invalidate_all();
        break;
    case INVALIDATE_CODE: icache_all(); break;
    default: drain();
    }
}

/* An entry that is locked survives what keeps the TLB right in TLB_RIGHT. */
static void use_caches(const struct step *step)
{
    word address = step->address;

    switch (step->operation) {
    case LOCK_DATA_ENTRIES: case LOCK_CODE_ENTRIES: case UNLOCK_ENTRIES:
        if (MAINTENANCE != TLB_RIGHT)
            lock_entries(step->operation, address, step->choice);
        break;
    case LOCK_DATA_WAYS: case LOCK_CODE_WAYS: lock_ways(step->operation, step->choice); break;
    case CHANGE_CACHES: change_caches(step->choice); break;
    default: use_read_buffer(step->operation, address);
    }
}

static struct step next_step(word number)
{
    static const unsigned char accesses[] = {
        LOAD, LOAD, LOAD, LOAD, LOAD, LOAD, LOAD, LOAD_BYTE, LOAD_HALF, LOAD_TWO, LOAD_AS_USER, SWAP,
        STORE, STORE, STORE, STORE, STORE, STORE_BYTE, STORE_HALF, STORE_TWO, STORE_AS_USER,
        WRITE_CODE, WRITE_CODE, CALL, CALL, CALL,
    };
    struct step step;

    step.operation = below(4) ? ONE_OF(accesses) : FIRST_CHANGE + below(OPERATIONS - FIRST_CHANGE);
    if (has_large_page && (step.operation == CHANGE_PAGE || step.operation == CHANGE_EXTENDED_PAGE))
        step.operation = CHANGE_LARGE_PAGE;
    step.address = random_address();
    step.page = below(VIEW_PAGES);
    step.value = 0x5a000000 + (number << 8);
    step.choice = next_random();
    return step;
}

/* What the access found; 0 if there was none. */
static word take(const struct step *step)
{
    word code = (step->address & ~0xfff) | CODE;

    switch (step->operation) {
    case LOAD: case LOAD_BYTE: case LOAD_HALF: case LOAD_TWO: case LOAD_AS_USER:
        return load(step->operation, step->address, step->page % 4);
    case SWAP: return swap(step->address, step->value);
    case STORE: case STORE_BYTE: case STORE_HALF: case STORE_TWO: case STORE_AS_USER:
        store(step->operation, step->address, step->page % 4, step->value);
        return 0;
    case WRITE_CODE:
        store(STORE, code, 0, 0xe3a00000 | (step->value >> 8 & 0xff));     /* MOV R0, #number */
        return 0;
    case CALL: return call_code(code);
    default:
        break;
    }
    if (step->operation < FIRST_MAINTENANCE)
        change(step);
    else if (step->operation < FIRST_OF_CACHES)
        maintain(step);
    else if (!IS_REFERENCE)
        use_caches(step);
    return 0;
}

/* Each quarter, since a TLB may hold quarters of a page (ARM DDI 0198D, 3.2.12). By address, locked entries go, too. */
static void invalidate_pages(word address, word pages)
{
    for (word quarter = 0; quarter < 4 * pages; quarter++) {
        UNLESS_LEFT_OUT(DATA_TLB, dtlb_entry(address + (quarter << 10)));
        UNLESS_LEFT_OUT(CODE_TLB, itlb_entry(address + (quarter << 10)));
    }
}

/* All that a step can need, and of the TLB no more than it needs. */
static void put_right(const struct step *step)
{
    if (LEFT_OUT != DATA_CLEAN) {
        UNLESS_LEFT_OUT(MINICACHE_CLEAN, clean_minicache());
        clean_all(1, 1);
    }
    UNLESS_LEFT_OUT(CODE_INVALIDATE, icache_all());
    drain();
    UNLESS_LEFT_OUT(READ_BUFFER, use_read_buffer(EMPTY_READ_BUFFER, 0));
    switch (step->operation) {
    case CHANGE_PAGE: case CHANGE_TINY_PAGE: case CHANGE_FOUR_TINY_PAGES: case CHANGE_EXTENDED_PAGE:
        invalidate_pages(VIEW + (step->page << 12), 1);
        break;
    case CHANGE_LARGE_PAGE: invalidate_pages(VIEW, LARGE_ENTRIES); break;
    case CHANGE_SLOT_PAGE:
        if (LEFT_OUT != TLB_OF_SLOT)
            for (word other = 0; other < PROCESSES; other++)
                invalidate_pages(other * SLOT + SLOT_VIEW + (step->page % SLOT_PAGES << 12), 1);
        break;
    case CHANGE_SECTION: UNLESS_LEFT_OUT(TLB_OF_SECTION, invalidate_pages(VIEW, VIEW_PAGES)); break;
    case CHANGE_TABLES: UNLESS_LEFT_OUT(TLB_OF_TABLES, invalidate_pages(VIEW, VIEW_PAGES)); break;
    default: break;
    }
}

static void print_number(word value)
{
    for (word digits = 8; digits; digits--)
        *(volatile word *)CONSOLE = "0123456789abcdef"[value >> 4 * (digits - 1) & 15];
    *(volatile word *)CONSOLE = ' ';
}

/* The number on the command line, behind the name of the program. */
static word seed(void)
{
    static char line[64];
    static struct { char *at; word bytes; } block = {line, sizeof line};
    register word call __asm__("r0") = 0x15;        /* semihosting: SYS_GET_CMDLINE */
    register void *argument __asm__("r1") = &block;
    word number = 0;

    __asm__ volatile("svc 0x123456" : "+r"(call) : "r"(argument) : "memory", "lr");
    for (const char *at = line; *at; at++)
        number = *at == ' ' ? 0 : 10 * number + (*at - '0');
    return number;
}

/* Of a refused access its address, and not why: where an old entry and the tables both refuse, the checker does not
 * ask whether they give the same reason. */
void random_steps(void)
{
    random_state = 7919 * seed() + 1;       /* not 0, and far from that of the next seed */
    for (word number = 0; number < STEPS; number++) {
        struct step step = next_step(number);
        word aborts_before = aborts, found = take(&step), refused = aborts - aborts_before, at = 0;

        if (refused)
            __asm__ volatile("mrc p15, 0, %0, c6, c0, 0" : "=r"(at));       /* fault address */
        if (IS_REFERENCE || MAINTENANCE == TLB_RIGHT) {
            drain();
            tlb_all();
        } else if (MAINTENANCE == RIGHT) {
            put_right(&step);
        }
        print_number(number);
        print_number(found);
        print_number(refused);
        print_number(at);
        print_number(*(volatile word *)CHECKER_REPORTS);
        *(volatile word *)CONSOLE = '\n';
    }
}
