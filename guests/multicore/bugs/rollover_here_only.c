/* Identifiers of spaces are given out again, and the old entries invalidated on one core only. (Linux's
 * rollover missed a core in lazy TLB mode: 8678c1f04277.) */
#include "../machine.h"

static volatile word used, given, done;

void other(word core)
{
    (void)core;
    use(VIEW);
    flag_raise(&used);
    flag_wait(&given);
    enter_space(OTHER_TABLE, 1);
    use(VIEW);
    flag_raise(&done);
}

void first(void)
{
    map_view_of_both(NOT_GLOBAL);
    turn_on(1);
    flag_wait(&used);
    CORRECT_OR_WRONG(tlb_all(), tlb_all_here());
    complete();
    flag_raise(&given);
    flag_wait(&done);
}
