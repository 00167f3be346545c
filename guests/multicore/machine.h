/* What programs on several Cortex-A7 of the virt board share: the memory map, the operations of the cores,
 * and the functions whose names reports show.
 *
 * Compiled with CORRECT for the correct twin of a program that leaves something out.
 */
typedef unsigned int word;

/* Physical: the program is below 0x40100000. */
enum {
    TABLE = 0x40100000,         /* first-level tables */
    OTHER_TABLE = 0x40104000,
    PAGES_TABLE = 0x40108000,   /* second-level tables of the test pages */
    OTHER_PAGES_TABLE = 0x40108400,
    PAGE_A = 0x40200000,        /* test pages */
    PAGE_B = 0x40201000,
    VIEW = 0x80000000,          /* where test pages are mapped */
    UNCACHED = 0xc0000000,      /* all RAM once more, uncached */
};

/* Bits of descriptors: normal memory, write-back and write-allocate, shared; readable and writable by all,
 * or readable only; not global. */
enum {
    SMALL_PAGE = 0x002, NORMAL = 0x44c, READ_WRITE = 0x030, READ_ONLY = 0x220, NOT_GLOBAL = 0x800,
    LARGE_PAGE = 0x001, LARGE_NORMAL = 0x140c,  /* TEX is elsewhere than in a small page's descriptor */
};

#include "../mutants/twin.h"

#define WRITE_CP15(value, crn, crm, op2) \
    __asm__ volatile("mcr p15, 0, %0, " #crn ", " #crm ", " #op2 : : "r"(value) : "memory")

static inline void data_barrier(void) { __asm__ volatile("dmb" : : : "memory"); }
static inline void complete(void) { __asm__ volatile("dsb" : : : "memory"); }
static inline void synchronise(void) { __asm__ volatile("isb" : : : "memory"); }

/* TLB maintenance, of this core and of all cores. */
static inline void tlb_entry_here(word address) { WRITE_CP15(address, c8, c7, 1); }
static inline void tlb_entry(word address) { WRITE_CP15(address, c8, c3, 1); }
static inline void tlb_space(word space) { WRITE_CP15(space, c8, c3, 2); }
static inline void tlb_all(void) { WRITE_CP15(0, c8, c3, 0); }
static inline void tlb_all_here(void) { WRITE_CP15(0, c8, c7, 0); }

/* Cache maintenance by address, to the point of unification or of coherency. */
static inline void clean_to_unification(word address) { WRITE_CP15(address, c7, c11, 1); }
static inline void clean_to_coherency(word address) { WRITE_CP15(address, c7, c10, 1); }
static inline void clean_and_invalidate(word address) { WRITE_CP15(address, c7, c14, 1); }
static inline void invalidate_data(word address) { WRITE_CP15(address, c7, c6, 1); }
static inline void invalidate_code_line(word address) { WRITE_CP15(address, c7, c5, 1); }
static inline void invalidate_code_here(void) { WRITE_CP15(0, c7, c5, 0); }
static inline void invalidate_code(void) { WRITE_CP15(0, c7, c1, 0); }

static inline void set_table(word base) { WRITE_CP15(base | 0x4a, c2, c0, 0); }
static inline void set_space(word number) { WRITE_CP15(number, c13, c0, 1); }

/* machine.c. Not inlined, so that reports name them. */
void print(const char *text);
void print_number(word number);
_Noreturn void power_off(void);
word hypervisor_call(word function, word first, word second, word third);
word turn_on(word core);                        /* whether there is such a core */
void set_entry(word table, word index, word value);
void put(word address, word value);             /* a store that makes something stale */
word use(word address);                         /* the load that sees it */
word call(word address);                        /* the same for code */
void flag_raise(volatile word *flag);
void flag_wait(volatile word *flag);

/* Mappings of a page at VIEW, and spaces. */
static inline void map_view(word page, word bits)
{
    set_entry(PAGES_TABLE, 0, page | SMALL_PAGE | NORMAL | bits);
    complete();
}

static inline void unmap_view(void)
{
    set_entry(PAGES_TABLE, 0, 0);
    complete();
}

/* PAGE_A in the space of TABLE, PAGE_B in that of OTHER_TABLE. */
static inline void map_view_of_both(word bits)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE | bits);
    set_entry(OTHER_PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE | bits);
    complete();
}

static inline void enter_space(word table, word number)
{
    set_space(0);
    synchronise();
    set_table(table);
    synchronise();
    set_space(number);
    synchronise();
}

/* Reads so much that no line from before stays in the caches: 16 times what they hold, replaced at random. */
static inline void evict_lines(void)
{
    for (volatile word *line = (word *)0x40800000; line < (word *)0x41000000; line += 16)
        (void)*line;
}

/* Code that gives `result`; whoever writes it makes it visible to instruction fetches. */
static inline void put_function(word address, word result)
{
    put(address, 0xe3a00000 | result);  /* MOV R0, #result */
    put(address + 4, 0xe12fff1e);       /* BX LR */
}

/* The program. */
void first(void);                               /* core 0; the machine ends when it returns */
void other(word core);                          /* any core that it turned on; unless it is there, nothing */
