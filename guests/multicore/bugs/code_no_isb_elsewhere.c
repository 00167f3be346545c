/* Code is replaced with all maintenance, and another core that has run the old calls it with no ISB. (Linux
 * forgot this for probes in user code.) */
#include "elsewhere.h"

static void before_second_call(void)
{
    ONLY_CORRECT(synchronise());
}

void first(void)
{
    replace_function(1);
    turn_on(1);
    flag_wait(&called);
    replace_function(2);
    flag_raise(&replaced);
    flag_wait(&done);
}
