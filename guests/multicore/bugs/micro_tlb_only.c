/* A page is mapped elsewhere without an invalidation, when the main TLB has lost its old entry to others of the same
 * set: only the micro TLB of data still has it. */
#include "../counters.h"

enum { SET_BYTES = 128 * 4096, WAYS = 2, FURTHER = VIEW + (1 << 20) };

static word main_tlb_has_view(void)
{
    word has = 0;
    for (word way = 0; way < WAYS; way++) {
        word middle, low = read_entry(way << 31 | (VIEW >> 12 & 127), &middle);
        has |= low & 1 && (low >> 5 & 0x1fff) == VIEW >> 19;
    }
    return has;
}

void first(void)
{
    set_entry(OTHER_PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE);
    set_entry(OTHER_PAGES_TABLE, 128, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE);
    set_entry(TABLE, FURTHER >> 20, OTHER_PAGES_TABLE | 1);
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    use(FURTHER);
    use(FURTHER + SET_BYTES);
    if (main_tlb_has_view())
        print("the main TLB has it, too\n");
    unmap_view();
    ONLY_CORRECT(tlb_entry(VIEW));
    ONLY_CORRECT(complete());
    map_view(PAGE_B, READ_WRITE);
    synchronise();
    use(VIEW);
}
