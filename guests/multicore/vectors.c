/* An exception whose vector was mapped by a store that is still in the data cache: where memory has an older
 * descriptor, of a page of zeros. A walk reads through the cache, and so must whoever only looks. */
#include "machine.h"

enum { DATA_ABORT = 0x10, UNMAPPED = VIEW + 0x1000 };

void other(word core) { (void)core; }

static volatile word aborted_at;

/* Notes where, with the stack pointer of the mode as its only register, and skips the instruction. */
__attribute__((naked)) static void skip(void)
{
    __asm__ volatile("ldr sp, =aborted_at\n\t"
                     "str lr, [sp]\n\t"
                     "subs pc, lr, #4\n\t"
                     ".ltorg");
}

void first(void)
{
    word handler = PAGE_B + DATA_ABORT;
    *(volatile word *)handler = 0xe51ff004;     /* LDR PC, [PC, #-4] */
    *(volatile word *)(handler + 4) = (word)skip;
    clean_to_unification(handler);
    complete();
    invalidate_code_line(handler);
    complete();
    synchronise();

    map_view(PAGE_A, READ_ONLY);
    clean_to_coherency(PAGES_TABLE);
    complete();
    unmap_view();
    map_view(PAGE_B, READ_ONLY);
    WRITE_CP15(VIEW, c12, c0, 0);
    synchronise();
    (void)*(volatile word *)UNMAPPED;
    print_number(aborted_at != 0);
}
