/* With TEX remap the descriptor becomes one of another memory type at once; in the correct program only bits change
 * that belong to the operating system then, TEX[2:1]. */
#include "../machine.h"

enum {
    TYPE_REMAP = 1 << 28,
    /* Region 0 strongly-ordered, 1 device, the others normal; all write-back and write-allocate. */
    PRIMARY_REGIONS = 0x000aaaa4, NORMAL_REGIONS = 0x55555555,
    SHARED = 0x400, UPPER_TYPE_BITS = 0x180,
};

void first(void)
{
    word control;
    __asm__ volatile("mrc p15, 0, %0, c1, c0, 0" : "=r"(control));
    WRITE_CP15(PRIMARY_REGIONS, c10, c2, 0);
    WRITE_CP15(NORMAL_REGIONS, c10, c2, 1);
    WRITE_CP15(control | TYPE_REMAP, c1, c0, 0);
    synchronise();
    tlb_all_here();
    complete();
    synchronise();
    map_view(PAGE_A, READ_WRITE);
    use(VIEW);
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | READ_WRITE | CORRECT_OR_WRONG(NORMAL | UPPER_TYPE_BITS, SHARED));
    complete();
    tlb_entry(VIEW);
    complete();
    synchronise();
    use(VIEW);
}
