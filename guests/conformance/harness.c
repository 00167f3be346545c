/* Runs the cases that generate.py made, one after the other, and prints what each left behind.
 *
 * One line a case: number, r0-r12, user SP and LR, CPSR, PC, a hash of all banked registers, a hash
 * of the scratch window, then the exceptions it took. Two machines that agree print the same text.
 */
#include "layout.h"

typedef unsigned int word;

struct header {
    word magic;
    word cases;
    word verbose;       /* print the banked registers one by one */
    word psr_mask;      /* the PSR bits that this architecture defines */
    word control;       /* CP15 control register while the cases run */
    word size;          /* of header and cases, in bytes */
};

struct test_case {
    word length;        /* of the record, in bytes */
    word cpsr;
    word seed;
    word registers[15];
    word code[];
};

enum { UNDEFINED = 1, SUPERVISOR, PREFETCH, DATA };
enum { RESULT_CPSR = 13, RESULT_PC, RESULT_SP, RESULT_LR, RESULT_BANKS, RESULT_WORDS = RESULT_BANKS + 20 };
enum { EVENTS = 24, THUMB = 0x20 };
/* Of the fault status: with ARMv7 its fifth bit and whether it was a store. */
#ifdef ARMV7
enum { STATUS = 0xcff };
#else
enum { STATUS = 0xff };
#endif
enum { END_ARM = 0xabcde, END_THUMB = 0xfe };

extern word result[64];
extern char save_page[];
void run_case(const word *banks, const word *registers, word cpsr, word entry);
word exception(word vector, word lr, word spsr);

static word page_table[4096] __attribute__((aligned(16384)));
static word coarse_table[256] __attribute__((aligned(1024)));
static char *text = (char *)TEXT;
static word events, psr_mask;

static void flush_text(void)
{
    register word r0 __asm__("r0") = 4;
    register word r1 __asm__("r1") = TEXT;
    *text = 0;
    __asm__ volatile("svc 0x123456" : "+r"(r0) : "r"(r1) : "memory", "lr");
    text = (char *)TEXT;
}

static void put(char c)
{
    *text++ = c;
}

static void put_hex(char before, word value, int digits)
{
    put(before);
    while (digits--)
        put("0123456789abcdef"[value >> (digits * 4) & 15]);
}

/* Bytes of the Thumb instruction at an address. */
static word thumb_length(word at)
{
#ifdef ARMV7
    return *(unsigned short *)at >= 0xe800 ? 4 : 2;
#else
    (void)at;
    return 2;
#endif
}

/* The instruction that was interrupted will not be executed again: it counts in its IT block. */
static void leave_out(word spsr)
{
#ifdef ARMV7
    word state = (spsr >> 25 & 3) | (spsr >> 8 & 0xfc);
    state = state & 7 ? (state & 0xe0) | (state << 1 & 0x1f) : 0;
    spsr = (spsr & ~0x0600fc00u) | (state & 3) << 25 | (state & 0xfc) << 8;
    __asm__ volatile("msr spsr_cxsf, %0" : : "r"(spsr));
#else
    (void)spsr;
#endif
}

/* Called by the vectors: notes what happened; gives the address to continue at, 0 ends the case. */
word exception(word vector, word lr, word spsr)
{
    word thumb = spsr & THUMB;

    if (vector == SUPERVISOR) {
        word end = thumb ? (*(unsigned short *)(lr - 2) & 0xff) == END_THUMB
                         : (*(word *)(lr - 4) & 0xffffff) == END_ARM;
        if (end)
            return 0;
    }
    put(' ');
    put(" USPD"[vector]);
    put_hex(':', lr, 8);
    put_hex(':', spsr & psr_mask, 8);
    if (vector == DATA) {
        word status, address;
        __asm__ volatile("mrc p15, 0, %0, c5, c0, 0" : "=r"(status));
        __asm__ volatile("mrc p15, 0, %0, c6, c0, 0" : "=r"(address));
        put_hex(':', status & STATUS, 3);
        put_hex(':', address, 8);
    }
    if (vector == PREFETCH || ++events == EVENTS)
        return 0;
    word at = lr - (vector == DATA ? 8 : thumb ? 2 : 4);
    if (thumb && vector != SUPERVISOR)
        leave_out(spsr);
    return at + (thumb ? thumb_length(at) : 4);
}

#ifdef ARMV7
/* D0 to D31 of a case, and FPSCR. */
static word vectors[64] __attribute__((aligned(8)));

static void enable_vectors(void)
{
    __asm__ volatile(
        ".arch armv7-a\n.fpu neon-vfpv4\n"
        "mcr p15, 0, %0, c1, c0, 2\n"
        "isb\n"
        "vmsr fpexc, %1" : : "r"(0xf << 20), "r"(1 << 30));
}

/* Any bits, small numbers, and numbers at the edges of single and double precision. */
static word start_vectors(word value)
{
    static const word edges[] = {
        0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7fa00001,
        0xffc12345, 0xff812345, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0x3f000000, 0x40490fdb,
        0x4f000000, 0xcf000000, 0x4effffff, 0x33800000, 0x7e800000, 0x3fc00000, 0x41480000, 0x477fe000,
        0x3ff00000, 0x7ff00000, 0xfff00000, 0x7ff80000, 0x7ff40000, 0x00100000, 0x7fefffff, 0x41e00000,
        0x43e00000, 0xc1e00000, 0x3ca00000, 0x47efffff, 0x36a00000, 0x38100000, 0xffffffff, 0x7c007e01,
    };
    const word *first = vectors;

    for (int i = 0; i < 64; i++) {
        value = value * 1664525 + 1013904223;
        word kind = value >> 28, edge = edges[(value >> 16) % (sizeof edges / sizeof *edges)];
        vectors[i] = kind < 4 ? value ^ value << 16 : kind < 7 ? edge : kind < 10 ? edge + (value >> 8 & 3)
            : kind < 12 ? 0 : kind < 14 ? (value >> 4 & 0x80ffffff) + 0x3f000000
            : (value >> 4 & 0x801fffff) + 0x3fe00000;
    }
    __asm__ volatile(
        "vldmia %0!, {d0-d15}\n"
        "vldmia %0, {d16-d31}\n"
        "vmsr fpscr, %1" : "+r"(first) : "r"((value ^ value << 16) & 0xffc0009f) : "memory");
    return value;
}

static word end_vectors(void)
{
    word status, *first = vectors;

    __asm__ volatile(
        "vstmia %0!, {d0-d15}\n"
        "vstmia %0, {d16-d31}\n"
        "vmrs %1, fpscr" : "+r"(first), "=r"(status) : : "memory");
    return status;
}
#endif

static word hash(word h, const word *words, int count)
{
    while (count--)
        h = (h ^ *words++) * 16777619 ^ h >> 15;
    return h;
}

/* The bits of a section descriptor. Access 0 with the R bit of the control register is read-only; ARMv7
 * has that as an access of its own, and bit 4 says that nothing there is executed. */
static word section(word access)
{
#ifdef ARMV7
    return access ? access << 10 | 2 : 0x8c02;
#else
    return access << 10 | 0x12;
#endif
}

static void map(word address, word megabytes, word access, word domain, word cached)
{
    for (word i = address >> 20; megabytes--; i++)
        page_table[i] = i << 20 | section(access) | domain << 5 | (cached ? 0xc : 0);
}

/* Section 0 by pages: code read-only (AP 0 with the R bit, as the cases), the save page writable. */
static void map_own_code(void)
{
#ifdef ARMV7
    const word read_only = 0x230, writable = 0x10;
#else
    const word read_only = 0, writable = 0x55 << 4;
#endif
    for (word i = 0; i < 256; i++)
        coarse_table[i] = i << 12 | read_only | 0xe;
    word page = (word)save_page >> 12;
    coarse_table[page] = page << 12 | writable | 0xe;
    page_table[0] = (word)coarse_table | 1 | (STATUS == 0xff ? 0x10 : 0);
}

int main(void)
{
    const struct header *header = (const struct header *)CASES;
    const struct test_case *test = (const struct test_case *)(header + 1);

    if (header->magic != 0x45534143)
        return 2;
    for (int i = 0; i < 4096; i++)
        page_table[i] = 0;
    map_own_code();
    map(CASES, (header->size >> 20) + 1, 0, 0, 1);
    map(SCRATCH, 1, 3, 0, 1);
    map(READ_ONLY, 1, 2, 0, 1);
    map(PRIVILEGED, 1, 1, 0, 1);
    map(NO_ACCESS, 1, 3, 2, 1);
    map(PRIVATE, 1, 1, 1, 1);
    map(TEXT, 1, 1, 1, 0);
    map(0x10100000, 1, 1, 1, 0);
    __asm__ volatile(
        "mcr p15, 0, %0, c2, c0, 0\n"
        "mcr p15, 0, %1, c3, c0, 0\n"
        "mcr p15, 0, %2, c8, c7, 0\n"
#ifndef ARMV7
        "mcr p15, 0, %2, c7, c7, 0\n"
#endif
        "mcr p15, 0, %3, c1, c0, 0\n"
        "nop\nnop\nnop\nnop"
        : : "r"(page_table), "r"(5), "r"(0), "r"(header->control) : "memory");
    psr_mask = header->psr_mask;
#ifdef ARMV7
    enable_vectors();
#endif

    for (word number = 0; number < header->cases; number++) {
        word banks[20], *window = (word *)WINDOW, value = test->seed;
        for (int i = 0; i < WINDOW_WORDS; i++)
            window[i] = value = value * 1664525 + 1013904223;
        for (int i = 0; i < 20; i++)
            banks[i] = value = value * 1664525 + 1013904223;
        for (int i = 2; i < 12; i += 3)
            banks[i] = (banks[i] & 0xf0000000) | 0xdf;
        banks[19] = (banks[19] & 0xf0000000) | 0xd0;

#ifdef ARMV7
        start_vectors(value);
#endif
        put_hex('\n', number, 5);
        put(' ');
        char *start = text;
        events = 0;
        run_case(banks, test->registers, test->cpsr, (word)test->code);
        put(text == start ? '-' : ' ');
        for (int i = 0; i < 13; i++)
            put_hex(' ', result[i], 8);
        put_hex(' ', result[RESULT_SP], 8);
        put_hex(' ', result[RESULT_LR], 8);
        put_hex(' ', result[RESULT_CPSR] & psr_mask, 8);
        put_hex(' ', result[RESULT_PC], 8);
        for (int i = 2; i < 12; i += 3)
            result[RESULT_BANKS + i] &= psr_mask;
        result[RESULT_BANKS + 19] &= psr_mask;
        put_hex(' ', hash(0x811c9dc5, result + RESULT_BANKS, 20), 8);
        put_hex(' ', hash(0x811c9dc5, window, WINDOW_WORDS), 8);
#ifdef ARMV7
        put_hex(' ', end_vectors(), 8);
        put_hex(' ', hash(0x811c9dc5, vectors, 64), 8);
#endif
        if (header->verbose) {
            for (int i = 0; i < 20; i++)
                put_hex(i ? ' ' : '|', result[RESULT_BANKS + i], 8);
            for (int i = 0; i < WINDOW_WORDS; i++)
                put_hex(i ? ' ' : '|', window[i], 8);
#ifdef ARMV7
            for (int i = 0; i < 64; i++)
                put_hex(i ? ' ' : '|', vectors[i], 8);
#endif
        }
        if (text > (char *)TEXT + 60000)
            flush_text();
        test = (const struct test_case *)((const char *)test + test->length);
    }
    put('\n');
    flush_text();
    return 0;
}
