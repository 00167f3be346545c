/* Timings as the guest itself sees them, by the cycle counter of the instrumentation device.
 *
 * Shares start-up and maintenance operations with the mutants. Prints "name cycles count" a line:
 * `cycles` beyond what the same code takes when nothing misses, for `count` events.
 */
#include "../mutants/machine.h"

enum { CYCLES_LOW = 0x101ff008, LINE = 32 };

/* Geometry of the core's caches and TLBs. */
#if CORE == SA1100
enum { DCACHE = 8192, ICACHE = 16384, DTLB = 32, ITLB = 32, WAYS = 32 };
#elif CORE == XSCALE
enum { DCACHE = 32768, ICACHE = 32768, DTLB = 32, ITLB = 32, WAYS = 32 };
#elif CORE == ARM920
enum { DCACHE = 16384, ICACHE = 16384, DTLB = 64, ITLB = 64, WAYS = 64 };
#else
enum { DCACHE = 16384, ICACHE = 16384, DTLB = 32, ITLB = 32, WAYS = 4 };  /* one TLB for both */
#endif

static inline word cycles(void)
{
    return *(volatile word *)CYCLES_LOW;
}

static char line[80], *end = line;

static void put_number(word value)
{
    char digits[10];
    int count = 0;
    do
        digits[count++] = '0' + value % 10;
    while (value /= 10);
    while (count)
        *end++ = digits[--count];
}

static void report(const char *name, word measured, word count)
{
    while (*name)
        *end++ = *name++;
    *end++ = ' ';
    put_number(measured);
    *end++ = ' ';
    put_number(count);
    *end++ = '\n';
    *end = 0;
    register word r0 __asm__("r0") = 4;
    register word r1 __asm__("r1") = (word)line;
    __asm__ volatile("svc 0x123456" : "+r"(r0) : "r"(r1) : "memory", "lr");
    end = line;
}

/* Loads one word of each line. */
__attribute__((noinline)) static word touch(word address, word bytes, word step)
{
    word start = cycles();
    for (word offset = 0; offset < bytes; offset += step)
        (void)*(volatile word *)(address + offset);
    return cycles() - start;
}

__attribute__((noinline)) static word make_dirty(word address, word bytes)
{
    word start = cycles();
    for (word offset = 0; offset < bytes; offset += LINE)
        *(volatile word *)(address + offset) = offset, *(volatile word *)(address + offset + 16) = offset;
    return cycles() - start;
}

__attribute__((noinline)) static word timed_clean(void)
{
    word start = cycles();
    clean_all(1, 1);
    return cycles() - start;
}

static void caches_and_tlbs(void)
{
    word hit, miss;

    /* Lines: a section, so that one TLB entry serves all. */
    map_section(BIG_VIEW, BIG_A, 3, 0, CACHED);
    tlb_all();
    clean_all(1, 1);
    miss = touch(BIG_VIEW, 4096, LINE);
    hit = touch(BIG_VIEW, 4096, LINE);
    report("line-miss", miss - hit, 4096 / LINE);

    /* Dirty victims: lines from elsewhere into a cache full of dirty lines, few, so that random replacement
     * seldom meets one of them, and the same again where they are all that the cache holds. */
    clean_all(1, 1);
    touch(BIG_VIEW, DCACHE, LINE);
    make_dirty(BIG_VIEW, DCACHE);
    miss = touch(BIG_VIEW + 0x10000, DCACHE / 16, LINE);
    clean_all(1, 1);
    touch(BIG_VIEW + 0x10000, DCACHE / 16, LINE);
    hit = touch(BIG_VIEW + 0x10000, DCACHE / 16, LINE);
    report("line-miss-with-dirty-victim", miss - hit, DCACHE / 16 / LINE);

    /* TLB: eight pages of 4 KB, lines present, entries not; two descriptors each. */
    for (word i = 0; i < 8; i++)
        map(VIEW + 0x1000 * i, PAGE_A + 0x1000 * i, READ_WRITE | CACHED);
    tlb_all();
    touch(VIEW, 0x8000, 0x1000 + LINE);
    hit = touch(VIEW, 0x8000, 0x1000 + LINE);
    WRITE_CP15(0, c8, c6, 0);
    (void)*(volatile word *)&line;      /* the program's own entry comes back first */
    (void)*(volatile word *)CYCLES_LOW;
    miss = touch(VIEW, 0x8000, 0x1000 + LINE);
    report("tlb-miss", miss - hit, 8);

    /* Whole cache. */
    clean_all(1, 1);
    touch(BIG_VIEW, DCACHE, LINE);
    report("whole-clean-of-clean-cache", timed_clean(), 1);
    touch(BIG_VIEW, DCACHE, LINE);
    make_dirty(BIG_VIEW, DCACHE);
    report("whole-clean-of-dirty-cache", timed_clean(), 1);
}

/* The number of lines of a cache and of pages that the worst case uses. One way and a few TLB entries
 * stay for the program itself (code; stack, instrumentation device): with round robin, one too many would miss
 * every time. */
#define LINES(bytes) ((bytes) / LINE * (WAYS - 1) / WAYS)
#if CORE == ARM926
enum { DATA_PAGES = DTLB / 4, CODE_PAGES = DTLB / 4 };  /* one TLB of two ways, also for the program */
#else
enum { DATA_PAGES = DTLB - 4, CODE_PAGES = ITLB - 2 };
#endif

/* Line `number` of `lines` that are spread over `pages` pages and all sets. */
static word spread(word number, word lines, word pages)
{
    word page = number / ((lines + pages - 1) / pages);
    return VIEW + 0x1000 * page + LINE * number % 0x1000;
}

static inline void touch_all(int dirty)
{
    for (word i = 0; i < LINES(DCACHE); i++) {
        volatile word *place = (volatile word *)spread(i, LINES(DCACHE), DATA_PAGES);
        (void)*place;
        if (dirty)
            place[0] = i, place[4] = i;
    }
}

/* Uses every line `rounds` times; gives the cycles of the last time. Of the code, every line jumps to the
 * next and the last returns. The function's own lines follow each other, so that no two of them are in
 * one set. */
__attribute__((noinline, aligned(512))) static word use_all(int rounds)
{
    word taken = 0;
    while (rounds--) {
        word start = cycles();
        touch_all(0);
        ((void (*)(void))(spread(0, LINES(ICACHE), CODE_PAGES) + 0x1000 * DTLB))();
        taken = cycles() - start;
    }
    return taken;
}

/* The direct and the indirect cost of flushing everything: caches full of dirty data and of code,
 * TLBs full; flush; then everything comes back. Against the same accesses with everything there. */
static void worst_case(void)
{
    for (word i = 0; i < LINES(ICACHE); i++) {
        word here = spread(i, LINES(ICACHE), CODE_PAGES), next = spread(i + 1, LINES(ICACHE), CODE_PAGES);
        word branch = 0xea000000 | ((next - here - 8) >> 2 & 0xffffff);
        *(volatile word *)(UNCACHED + BIG_B + here - VIEW) = i + 1 < LINES(ICACHE) ? branch : 0xe1a0f00e;
    }
    for (word i = 0; i < DATA_PAGES; i++)
        map(VIEW + 0x1000 * i, PAGE_A + 0x1000 * i, READ_WRITE | CACHED);
    for (word i = 0; i < CODE_PAGES; i++)
        map(VIEW + 0x1000 * (DTLB + i), BIG_B + 0x1000 * i, READ_WRITE | CACHED);
    clean_all(1, 1);
    icache_all();
    tlb_all();
    word warm = use_all(4);
    touch_all(1);
    word start = cycles();
    clean_all(1, 1);
    icache_all();
    tlb_all();
    word direct = cycles() - start;
    word cold = use_all(1);
    report("lines-in-use-at-the-flush", LINES(DCACHE) + LINES(ICACHE), 1);
    report("same-when-everything-is-there", warm, 1);
    report("same-after-the-flush", cold, 1);
    report("flush-of-everything-direct", direct, 1);
    report("flush-of-everything-with-what-follows", direct + cold - warm, 1);
}

/* Instructions: 64 of a kind in a row, the best of four runs, so that the I-cache holds them. Each in a function
 * of its own, which keeps its literals near. */
#define TOUCHED "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "ip", "lr", "cc", "memory"
#define INSTRUCTION(name, label, before, instruction)                                       \
    __attribute__((noinline)) static void name(void)                                        \
    {                                                                                       \
        word taken = ~0u, empty = ~0u;                                                      \
        for (int round = 0; round < 4; round++) {                                           \
            word start = cycles();                                                          \
            __asm__ volatile(POINT before : : : TOUCHED);                                   \
            empty = smaller(empty, cycles() - start);                                       \
            start = cycles();                                                               \
            __asm__ volatile(POINT before ".rept 64\n" instruction "\n.endr" : : : TOUCHED); \
            taken = smaller(taken, cycles() - start);                                       \
        }                                                                                   \
        report(label, taken - empty, 64);                                                   \
    }

static inline word smaller(word a, word b) { return a < b ? a : b; }

word buffer[64] __attribute__((aligned(32)));

/* r0 points to a cached line; the others hold numbers for the multiplier. */
#define POINT                                                                               \
    "ldr r0, 1f\nldmia r0, {r2-r5}\nmov r1, #3\nmov r6, #5\nmov r7, #0x65000000\nb 2f\n1: .word buffer\n2:\n"

INSTRUCTION(time_mov, "mov", "", "mov r2, r1")
INSTRUCTION(time_add_shifted_by_register, "add-shifted-by-register", "", "add r2, r1, r6, lsl r1")
INSTRUCTION(time_ldr, "ldr", "", "ldr r2, [r0]")
INSTRUCTION(time_ldr_then_use, "ldr-then-use", "", "ldr r2, [r0]\nadd r3, r2, r1")
INSTRUCTION(time_ldrb_then_use, "ldrb-then-use", "", "ldrb r2, [r0]\nadd r3, r2, r1")
INSTRUCTION(time_str, "str", "", "str r2, [r0]")
INSTRUCTION(time_ldm_1, "ldm-1", "", "ldmia r0, {r2}")
INSTRUCTION(time_ldm_4, "ldm-4", "", "ldmia r0, {r2-r5}")
INSTRUCTION(time_stm_4, "stm-4", "", "stmia r0, {r2-r5}")
INSTRUCTION(time_swp, "swp", "", "swp r2, r1, [r0]")
INSTRUCTION(time_mul_by_small, "mul-by-small", "", "mul r2, r6, r1")
INSTRUCTION(time_mul_by_large, "mul-by-large", "", "mul r2, r1, r7")
INSTRUCTION(time_muls, "muls", "", "muls r2, r6, r1")
INSTRUCTION(time_umull, "umull", "", "umull r2, r3, r6, r1")
INSTRUCTION(time_branch_taken, "branch-taken", "", "b 4f\n4:")
INSTRUCTION(time_branch_not_taken, "branch-not-taken", "cmp r1, #3\n", "bne 4f\n4:")
INSTRUCTION(time_ldr_pc, "ldr-pc", "", "ldr pc, 3f\n3: .word 4f\n4:")
INSTRUCTION(time_mrs, "mrs", "", "mrs r2, cpsr")
INSTRUCTION(time_msr_flags, "msr-flags", "mrs r2, cpsr\n", "msr cpsr_f, r2")
INSTRUCTION(time_msr_control, "msr-control", "mrs r2, cpsr\n", "msr cpsr_c, r2")
#if CORE == ARM926 || CORE == XSCALE
INSTRUCTION(time_clz, "clz", "", "clz r2, r1")
INSTRUCTION(time_smulbb, "smulbb", "", "smulbb r2, r6, r1")
INSTRUCTION(time_qadd, "qadd", "", "qadd r2, r6, r1")
INSTRUCTION(time_ldrd, "ldrd", "", "ldrd r2, r3, [r0]")
#endif

static void instructions(void)
{
    time_mov();
    time_add_shifted_by_register();
    time_ldr();
    time_ldr_then_use();
    time_ldrb_then_use();
    time_str();
    time_ldm_1();
    time_ldm_4();
    time_stm_4();
    time_swp();
    time_mul_by_small();
    time_mul_by_large();
    time_muls();
    time_umull();
    time_branch_taken();
    time_branch_not_taken();
    time_ldr_pc();
    time_mrs();
    time_msr_flags();
    time_msr_control();
#if CORE == ARM926 || CORE == XSCALE
    time_clz();
    time_smulbb();
    time_qadd();
    time_ldrd();
#endif
}

void timing(void)
{
    caches_and_tlbs();
    worst_case();
    instructions();
}
