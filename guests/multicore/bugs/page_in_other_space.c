/* A page is unmapped and given to another space, which maps it at the same address, before the invalidation is
 * complete, while another core still uses the old entry. In the correct program nothing is written to it until then. */
#include "../machine.h"

enum { PAGE = PAGE_A | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL };

static volatile word mapped, given, done;

void other(word core)
{
    (void)core;
    use(VIEW);
    flag_raise(&mapped);
    flag_wait(&given);
    use(VIEW);
    flag_raise(&done);
}

void first(void)
{
    set_entry(PAGES_TABLE, 0, PAGE);
    complete();
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    set_entry(OTHER_PAGES_TABLE, 0, PAGE);
    complete();
    enter_space(OTHER_TABLE, 2);
    CORRECT_OR_WRONG((void)0, put(VIEW, 7));
    flag_raise(&given);
    flag_wait(&done);
    tlb_entry(VIEW | 1);
    complete();
    synchronise();
    ONLY_CORRECT(put(VIEW, 7));
}
