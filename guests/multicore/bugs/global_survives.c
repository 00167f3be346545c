/* A page of one space is mapped as global: the entry is used in the next space, too. */
#include "../machine.h"

enum { PRIVATE = CORRECT_OR_WRONG(NOT_GLOBAL, 0) };

void other(word core) { (void)core; }

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE | PRIVATE);
    set_entry(OTHER_PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE | PRIVATE);
    complete();
    use(VIEW);
    set_space(0);
    synchronise();
    set_table(OTHER_TABLE);
    synchronise();
    set_space(2);
    synchronise();
    use(VIEW);
}
