/* A space is entered, and its memory used before the context is synchronised. */
#include "../machine.h"

void first(void)
{
    map_view_of_both(NOT_GLOBAL);
    use(VIEW);
    set_space(0);
    synchronise();
    set_table(OTHER_TABLE);
    synchronise();
    set_space(2);
    ONLY_CORRECT(synchronise());
    use(VIEW);
}
