/* Identifiers of spaces are given out anew, and the old entries invalidated on one core only. (Linux's
 * rollover missed a core in lazy TLB mode: 8678c1f04277.) */
#include "../machine.h"

static volatile word used, given, done;

static void enter(word table, word space)
{
    set_space(0);
    synchronise();
    set_table(table);
    synchronise();
    set_space(space);
    synchronise();
}

void other(word core)
{
    (void)core;
    use(VIEW);
    flag_raise(&used);
    flag_wait(&given);
    enter(OTHER_TABLE, 1);
    use(VIEW);
    flag_raise(&done);
}

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL);
    set_entry(OTHER_PAGES_TABLE, 0, PAGE_B | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL);
    complete();
    turn_on(1);
    flag_wait(&used);
    CORRECT_OR_WRONG(tlb_all(), tlb_all_here());
    complete();
    flag_raise(&given);
    flag_wait(&done);
}
