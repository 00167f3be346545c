/* Another core calls the code at PAGE_A, and once more when core 0 has replaced it. */
#include "../machine.h"

static volatile word called, replaced, done;

static void before_second_call(void);

void other(word core)
{
    (void)core;
    call(PAGE_A);
    flag_raise(&called);
    flag_wait(&replaced);
    before_second_call();
    call(PAGE_A);
    flag_raise(&done);
}

/* The function at PAGE_A becomes another, with all maintenance. */
static inline void replace_function(word result)
{
    put_function(PAGE_A, result);
    clean_to_unification(PAGE_A);
    complete();
    invalidate_code_line(PAGE_A);
    complete();
}

/* The first of two functions is replaced by the second once the other core has called it; that core is told. */
static inline void replace_called_function(void)
{
    replace_function(1);
    turn_on(1);
    flag_wait(&called);
    replace_function(2);
    flag_raise(&replaced);
}
