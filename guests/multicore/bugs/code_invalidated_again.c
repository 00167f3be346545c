/* As code_no_isb_elsewhere; the core that replaced the code invalidates its instruction cache once more, which
 * the other core need not wait for: the old code has left its own. */
#include "elsewhere.h"

static volatile word synchronised, invalidated;

static void before_second_call(void)
{
    ONLY_CORRECT(synchronise());
    flag_raise(&synchronised);
    flag_wait(&invalidated);
}

void first(void)
{
    replace_called_function();
    flag_wait(&synchronised);
    invalidate_code_here();
    flag_raise(&invalidated);
    flag_wait(&done);
}
