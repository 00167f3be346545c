/* One word of code is replaced with all maintenance, and another core that has run the old calls the code with
 * no ISB. */
#include "elsewhere.h"

enum {
    NOP = 0xe320f000,           /* the hint */
    MOVE = 0xe1a00000,          /* MOV r0, r0 */
    BRANCH_TO_THIRD = 0xea000001, /* B to the third word from here */
};

static void before_second_call(void)
{
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
    put(address, BRANCH_TO_THIRD);
    publish(address);
    flag_raise(&replaced);
    flag_wait(&done);
}
