// The StrongARM paper's L4 benchmark (section 4.1): clients report to the server and wait; the server
// then calls clients at random, and they answer at once.
#include "bench.h"

static void client(u32 server)
{
	struct message m = { { 0 } };
	for (;;)
		ipc_call(server, &m);
}

u32 pingpong(void)
{
	u32 clients = option_number("clients", 1), rounds = option_number("rounds", 100000);
	u32 state = option_number("seed", 1) * 2654435761u | 1, errors = 0;
	struct message m = { { 0 } };
	static u32 threads[512];
	for (u32 i = 0; i < clients; i++) {
		start_or_stop(i, client, self(), PRIORITY);
		threads[i] = processes[i].thread;
	}
	for (u32 i = 0; i < clients; i++)
		ipc_receive(ANY, &m);
	// A warm lap, not measured: every client is called once.
	for (u32 i = 0; i < clients; i++)
		ipc_call(threads[i], &m);
	struct lap lap;
	lap_start(&lap);
	for (u32 i = 0; i < rounds; i++) {
		u32 to = threads[(random_next(&state) >> 16) * clients >> 16];
		errors += ipc_call(to, &m) != to;
	}
	lap_end(&lap);
	print("pingpong: %u clients, %u round trips, %u errors\n", clients, rounds, errors);
	print("= pingpong clients=%u", clients);
	lap_print(&lap, rounds);
	return errors;
}
