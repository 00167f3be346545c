/* A page of a domain that is checked may be written from now on, and the context is not synchronised. Another domain is not checked. */
#include "../machine.h"

enum { OF_DOMAIN_1 = 1 << 5, COARSE = 1, MANAGER_OF_0_CLIENT_OF_1 = 7, PSCI_VERSION = 0x84000000 };

void first(void)
{
    set_entry(TABLE, VIEW >> 20, PAGES_TABLE | OF_DOMAIN_1 | COARSE);
    WRITE_CP15(MANAGER_OF_0_CLIENT_OF_1, c3, c0, 0);
    synchronise();
    map_view(PAGE_A, READ_ONLY);
    use(VIEW);
    map_view(PAGE_A, READ_WRITE);
    tlb_entry(VIEW);
    complete();
    /* A call of the firmware is an exception, and returns from one. */
    ONLY_CORRECT(hypervisor_call(PSCI_VERSION, 0, 0, 0));
    put(VIEW, 1);
}
