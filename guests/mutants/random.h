/* What the two files of the random program share: where things are, and how it is compiled.
 *
 * MAINTENANCE is CARELESS, TLB_RIGHT or RIGHT; with REFERENCE the caches stay off, and the TLB is emptied after each
 * step; LEFT_OUT is an operation that right maintenance then lacks. */
#include "machine.h"

enum maintenance { CARELESS, TLB_RIGHT, RIGHT };

#ifdef REFERENCE
#define IS_REFERENCE 1
#else
#define IS_REFERENCE 0
#endif

enum { PROCESSES = 4, FRAMES = 8, VIEW_PAGES = 8, SLOT_PAGES = 2, LARGE_ENTRIES = 16 };

/* Tables, beside those of machine.h: OTHER_TABLE has tiny pages where TABLE has small ones. */
enum { FINE = 0x00801000, SLOT_COARSE = 0x00802000, COARSE_BYTES = 0x400 };

/* The physical megabytes of tables and frames are mapped four times; UNCACHED is the first. Cached and not buffered
 * is written through, or in the minicache where there is one. */
enum { BUFFERED_WINDOW = 0x31000000, CACHED_WINDOW = 0x32000000, NOT_BUFFERED_WINDOW = 0x33000000, TABLES = COARSE };

/* Pages of each process, by addresses that FCSE modifies. */
enum { SLOT_VIEW = 0x00200000 };

/* Addresses for nothing but what evicts the minicache. */
enum { EVICTION = CORE == SA1100 ? 0xe1000000 : 0x61000000 };

/* Descriptors (ARM DDI 0100I, B4.7; XScale: 252480-006, 3.8.3.2). */
enum {
    SECTION = 0x12, COARSE_TABLE = 0x11, FINE_TABLE = 0x13,
    LARGE_PAGE = 1, SMALL_PAGE = 2, TINY_PAGE = 3, EXTENDED_PAGE = 3,
    FULL_ACCESS = 0xc00, VIEW_DOMAIN = 1 << 5, SLOT_DOMAIN = 2 << 5,
    TINY_BITS = 0x3c, EXTENDED_READ_WRITE = 0x30, EXTENDED_X = 0x40, SECTION_X = 0x1000,
    MINICACHE = WRITE_THROUGH | (CORE == XSCALE ? SECTION_X : 0),
};

/* Bits of the control register (ARM DDI 0100I, B3.4.1). */
enum {
    MMU = 1, ALIGNMENT = 2, DATA_CACHE = 4, WRITE_BUFFER = 8, SYSTEM = 0x100, ROM = 0x200, INSTRUCTION_CACHE = 0x1000,
};

/* Where a page has its code: two instructions that nothing but WRITE_CODE touches. */
enum { CODE = 0x800 };

extern word control;

static inline void set_control(word value)
{
    control = value;
    WRITE_CP15(value, c1, c0, 0);
    pipeline_nops();
}
