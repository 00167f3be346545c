/* The memory map of the mutants and the maintenance operations of the four cores.
 *
 * Compiled with CORE = ARM926, ARM920, SA1100 or XSCALE, and with CORRECT for the twin.
 */
#define ARM926 1
#define ARM920 2
#define SA1100 3
#define XSCALE 4

typedef unsigned int word;

/* Physical: the program below 8 MB, tables and test pages above. All RAM is mapped a second time,
 * uncached and unbuffered, at UNCACHED: a device would see memory like this. */
enum {
    UNCACHED = 0x30000000,
    COARSE = 0x00800000,        /* second-level table of the test pages */
    OTHER_COARSE = 0x00800400,
    TABLE = 0x00804000,         /* first level */
    OTHER_TABLE = 0x00808000,
    PAGE_A = 0x00900000,        /* test pages, physical */
    PAGE_B = 0x00901000,
    BIG_A = 0x00a00000,         /* test sections, physical */
    BIG_B = 0x00b00000,
    VIEW = 0x40000000,          /* where test pages are mapped */
    OTHER_VIEW = 0x40008000,
    BIG_VIEW = 0x50000000,
    SLOT = 0x02000000,          /* size of a process's window under FCSE */
};

/* Bits of a small-page descriptor. */
enum { READ_WRITE = 0xff0, READ_ONLY = 0xaa0, CACHED = 0xc, BUFFERED = 0x4, WRITE_THROUGH = 0x8 };

extern volatile word aborts;
extern const word return_one[2], return_two[2];

#include "twin.h"

#define WRITE_CP15(value, crn, crm, op2) \
    __asm__ volatile("mcr p15, 0, %0, " #crn ", " #crm ", " #op2 : : "r"(value) : "memory")

static inline void drain(void) { WRITE_CP15(0, c7, c10, 4); }
static inline void tlb_all(void) { WRITE_CP15(0, c8, c7, 0); }
static inline void dtlb_entry(word address) { WRITE_CP15(address, c8, c6, 1); }
static inline void icache_all(void) { WRITE_CP15(0, c7, c5, 0); }
static inline void dcache_invalidate_all(void) { WRITE_CP15(0, c7, c6, 0); }
static inline void clean_line(word address) { WRITE_CP15(address, c7, c10, 1); }
static inline void invalidate_line(word address) { WRITE_CP15(address, c7, c6, 1); }
static inline void set_domains(word value) { WRITE_CP15(value, c3, c0, 0); }

/* The core may have fetched behind the write already. */
static inline void pipeline_nops(void) { __asm__ volatile("nop\nnop\nnop\nnop" : : : "memory"); }

static inline void set_table(word physical)
{
    WRITE_CP15(physical, c2, c0, 0);
    pipeline_nops();
}

static inline void set_process(word number)
{
    WRITE_CP15(number << 25, c13, c0, 0);
    pipeline_nops();
}

static inline void itlb_entry(word address)
{
#if CORE == SA1100
    (void)address;
    WRITE_CP15(0, c8, c5, 0);   /* this core has no operation for one entry */
#else
    WRITE_CP15(address, c8, c5, 1);
#endif
}

static inline void tlb_entry(word address)
{
    dtlb_entry(address);
    itlb_entry(address);
}

/* Writes the whole data cache back and empties it. `part` of `whole` is done: 1 of 1 is correct. */
static inline void clean_all(word part, word whole)
{
#if CORE == ARM926
    /* Test, clean and invalidate, until the zero flag says that nothing is dirty. */
    if (part == whole)
        __asm__ volatile("1: mrc p15, 0, r15, c7, c14, 3\n bne 1b" : : : "memory", "cc");
    else
        __asm__ volatile("mrc p15, 0, r15, c7, c14, 3" : : : "memory", "cc");
#elif CORE == ARM920
    for (word segment = 0; segment < 8 * part / whole; segment++)
        for (word index = 0; index < 64; index++)
            WRITE_CP15(index << 26 | segment << 5, c7, c14, 2);
#elif CORE == SA1100
    for (word line = 0; line < 256 * part / whole; line++)
        (void)*(volatile word *)(0xe0000000 + 32 * line);
    dcache_invalidate_all();
#elif CORE == XSCALE
    /* Line allocates evict what is there; the addresses belong to nothing else. */
    for (word line = 0; line < 1024 * part / whole; line++)
        WRITE_CP15(0x60000000 + 32 * line, c7, c2, 5);
    dcache_invalidate_all();
#endif
    drain();
}

/* Not inlined, so that reports name them. */
void set_entry(word table, word index, word value);     /* by way of the uncached view */
void put(word address, word value);                     /* a store that makes something stale */
word use(word address);                                 /* the load that sees it */
void use_store(word address, word value);
word call(word address);

static inline void map(word address, word physical, word bits)
{
    set_entry(COARSE, address >> 12 & 255, physical | bits | 2);
}

static inline void map_section(word address, word physical, word access, word domain, word bits)
{
    set_entry(TABLE, address >> 20, physical | access << 10 | domain << 5 | bits | 0x12);
}
