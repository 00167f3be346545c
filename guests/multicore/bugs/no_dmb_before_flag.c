/* Messages are written and then a flag, without DMB between them: now and then the flag is seen while the message
 * still waits for its line in the store buffer. As in a spin lock that is released without a barrier. */
#include "../machine.h"

enum { MESSAGES = 100, LINE = 64 };

static volatile word sent, received;

void other(word core)
{
    (void)core;
    for (word message = 1; message <= MESSAGES; message++) {
        while (sent != message)
            ;
        data_barrier();
        use(PAGE_A + message * LINE);
        received = message;
    }
}

void first(void)
{
    turn_on(1);
    for (word message = 1; message <= MESSAGES; message++) {
        for (volatile word wait = 0; wait < 50 + message; wait++)
            ;
        put(PAGE_A + message * LINE, 7);
        ONLY_CORRECT(data_barrier());
        sent = message;
        while (received != message)
            ;
    }
}
