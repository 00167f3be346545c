/* Lines that are preloaded twice before they are used: found on its way, a line is waited for all the same.
 * Whether somebody looks on must not change that. */
#include "machine.h"

enum { LINES = 256, LINE = 64, DATA = 0x40400000 };

void other(word core) { (void)core; }

void first(void)
{
    word sum = 0;
    for (word line = 0; line < LINES; line++) {
        volatile word *at = (volatile word *)(DATA + line * LINE);
        __asm__ volatile("pld [%0]\n\tpld [%0, #4]" : : "r"(at));
        sum += at[0] + at[1];
        at[2] = sum;
    }
    print_number(sum);
}
