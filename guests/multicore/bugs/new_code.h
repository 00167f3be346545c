/* Two functions at one address in turn. A program's `publish` makes what was written be fetched. */
#include "../machine.h"

void publish(void);

void first(void)
{
    for (word result = 1; result <= 2; result++) {
        put_function(PAGE_A, result);
        publish();
        call(PAGE_A);
    }
}
