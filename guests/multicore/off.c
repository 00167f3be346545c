/* The second core is turned on three times, and goes off each time. */
#include "machine.h"

enum { CPU_OFF = 0x84000002, TIMES = 3 };

static volatile word done;

void other(word core)
{
    (void)core;
    done = done + 1;
    hypervisor_call(CPU_OFF, 0, 0, 0);
}

void first(void)
{
    for (word time = 1; time <= TIMES; time++) {
        while (!turn_on(1))
            ;
        while (done != time)
            ;
    }
}
