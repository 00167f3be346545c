/* The entry of a private page is invalidated with the identifier of another space. */
#include "../machine.h"

void first(void)
{
    map_view(PAGE_A, READ_WRITE | NOT_GLOBAL);
    use(VIEW);
    unmap_view();
    tlb_entry(VIEW | CORRECT_OR_WRONG(1, 2));
    complete();
    synchronise();
    map_view(PAGE_B, READ_WRITE | NOT_GLOBAL);
    synchronise();
    use(VIEW);
}
