/* What is to be read past all caches is cleaned to the point of unification only: it is in the second
 * level. (seL4's issue 367 was of this kind.) */
#include "../machine.h"

void first(void)
{
    put(PAGE_A, 1);
    CORRECT_OR_WRONG(clean_to_coherency(PAGE_A), clean_to_unification(PAGE_A));
    complete();
    use(PAGE_A + (UNCACHED - 0x40000000));
}
