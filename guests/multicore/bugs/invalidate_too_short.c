/* Two pages are unmapped and the entry of the first is invalidated: a length that is one too small. (An
 * overflow of a length did this to Xen's cache maintenance: CVE-2023-34321.) */
#include "../machine.h"

enum { PAGES = CORRECT_OR_WRONG(2, 1) };

void first(void)
{
    for (word page = 0; page < 2; page++)
        set_entry(PAGES_TABLE, page, PAGE_A + (page << 12) | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    use(VIEW);
    use(VIEW + 0x1000);
    for (word page = 0; page < 2; page++)
        set_entry(PAGES_TABLE, page, 0);
    complete();
    for (word page = 0; page < PAGES; page++)
        tlb_entry(VIEW + (page << 12));
    complete();
    synchronise();
    for (word page = 0; page < 2; page++)
        set_entry(PAGES_TABLE, page, PAGE_B - (page << 12) | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    synchronise();
    use(VIEW);
    use(VIEW + 0x1000);
}
