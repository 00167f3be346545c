/* The table base is changed, and memory that only the new tables map is used before the context is
 * synchronised. */
#include "../machine.h"

void first(void)
{
    set_entry(TABLE, VIEW >> 20, 0);
    set_entry(OTHER_PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE);
    complete();
    synchronise();
    set_table(OTHER_TABLE);
    ONLY_CORRECT(synchronise());
    use(VIEW);
}
