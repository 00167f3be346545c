/* As identifier_not_walked, where spaces are exchanged while there are no walks by TTBR0 (ARM DDI 0406C, B3.10.4). All
 * RAM is translated by TTBR1. */
#include "../machine.h"

enum { LOW = 0x30000000, BY_TTBR0_BELOW_1_GB = 2, NO_WALKS_BY_TTBR0 = 1 << 4 };

static void set_table_control(word value)
{
    WRITE_CP15(value, c2, c0, 2);
    synchronise();
}

static void enter_without_walks(word table, word number)
{
    set_table_control(BY_TTBR0_BELOW_1_GB | NO_WALKS_BY_TTBR0);
    set_space(number);
    set_table(table);
    synchronise();
    set_table_control(BY_TTBR0_BELOW_1_GB);
}

void first(void)
{
    set_entry(TABLE, LOW >> 20, PAGES_TABLE | 1);
    map_view(PAGE_A, READ_WRITE | NOT_GLOBAL);
    WRITE_CP15(TABLE | 0x4a, c2, c0, 1);
    synchronise();
    enter_without_walks(TABLE, 1);
    use(LOW);
    enter_without_walks(TABLE, 2);
    enter_without_walks(OTHER_TABLE, 3);
    unmap_view();
    tlb_entry(LOW | CORRECT_OR_WRONG(2, 3));
    complete();
    map_view(PAGE_B, READ_WRITE | NOT_GLOBAL);
}
