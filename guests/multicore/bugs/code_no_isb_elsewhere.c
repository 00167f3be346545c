/* Code is replaced with all maintenance, and another core that has run the old calls it with no ISB. (Linux
 * forgot this for probes in user code.) */
#include "elsewhere.h"

static void before_second_call(void)
{
    ONLY_CORRECT(synchronise());
}

static void replace(word result)
{
    put_function(PAGE_A, result);
    clean_to_unification(PAGE_A);
    complete();
    invalidate_code_line(PAGE_A);
    complete();
}

void first(void)
{
    replace(1);
    turn_on(1);
    flag_wait(&called);
    replace(2);
    flag_raise(&replaced);
    flag_wait(&done);
}
