/* One word of code is replaced with all maintenance, and another core that has run the old calls the code with
 * no ISB. */
#include "../machine.h"

enum {
    NOP = 0xe320f000,           /* the hint */
    MOVE = 0xe1a00000,          /* MOV r0, r0 */
    BRANCH_OVER_3 = 0xea000001, /* B to the third word from here */
};

static volatile word called, replaced, done;

void other(word core)
{
    (void)core;
    call(PAGE_A);
    flag_raise(&called);
    flag_wait(&replaced);
    call(PAGE_A);
    flag_raise(&done);
}

static void publish(word address)
{
    clean_to_unification(address);
    complete();
    invalidate_code_line(address);
    complete();
}

/* Two functions at PAGE_A, of which the first begins with `old`; then `address` holds a branch. */
static inline void patch(word old, word address)
{
    put(PAGE_A, old);
    put_function(PAGE_A + 4, 1);
    put_function(PAGE_A + 12, 2);
    publish(PAGE_A);
    turn_on(1);
    flag_wait(&called);
    put(address, BRANCH_OVER_3);
    publish(address);
    flag_raise(&replaced);
    flag_wait(&done);
}
