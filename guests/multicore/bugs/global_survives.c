/* A page of one space is mapped as global: the entry is used in the next space, too. */
#include "../machine.h"

enum { PRIVATE = CORRECT_OR_WRONG(NOT_GLOBAL, 0) };

void first(void)
{
    map_view_of_both(PRIVATE);
    use(VIEW);
    enter_space(OTHER_TABLE, 2);
    use(VIEW);
}
