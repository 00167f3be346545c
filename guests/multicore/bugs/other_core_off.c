/* A page is unmapped, and another core uses its old entry and goes off, which empties its TLB. So the invalidation of
 * this core's entry is enough before another page is mapped. In the wrong program the other core stays on. */
#include "../machine.h"

enum { CPU_OFF = 0x84000002, AFFINITY_INFO = 0x84000004, IS_ON = 0 };

static volatile word mapped, changed, done;

void other(word core)
{
    (void)core;
    use(VIEW);
    flag_raise(&mapped);
    flag_wait(&changed);
    use(VIEW);
    CORRECT_OR_WRONG(hypervisor_call(CPU_OFF, 0, 0, 0), flag_raise(&done));
}

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    flag_raise(&changed);
    CORRECT_OR_WRONG(while (hypervisor_call(AFFINITY_INFO, 1, 0, 0) == IS_ON), flag_wait(&done));
    tlb_entry_here(VIEW);
    complete();
    map_view(PAGE_B, READ_WRITE);
    synchronise();
    use(VIEW);
}
