/* Code is replaced with all maintenance, and another core that has run the old calls it with no ISB. (Linux
 * forgot this for probes in user code.) */
#include "elsewhere.h"

static void before_second_call(void)
{
    ONLY_CORRECT(synchronise());
}

void first(void)
{
    replace_called_function();
    flag_wait(&done);
}
