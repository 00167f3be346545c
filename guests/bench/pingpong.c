// The StrongARM paper's L4 benchmark (section 4.1): clients report to the server and wait; the server
// then calls clients at random, and they answer at once. With `lines=`, each side reads N lines of
// its own at every turn, as if its kernel and its library had a larger footprint.
#include "bench.h"

#define LINE_WORDS 8
#define MAX_LINES 128

static volatile u32 footprint[MAX_LINES * LINE_WORDS] __attribute__((aligned(PAGE_BYTES)));
static u32 lines, errors;

static void touch(u32 count)
{
	while (count)
		footprint[--count * LINE_WORDS];
}

static void client(u32 server)
{
	struct message m = { { 0 } };
	for (;;)
		ipc_call(server, &m);
}

static void touching_client(u32 server)
{
	struct message m = { { 0 } };
	for (;;) {
		ipc_call(server, &m);
		touch(lines);
	}
}

static u32 threads[512], clients, random_state;

static u32 call_somebody(struct message *m)
{
	u32 to = threads[(random_next(&random_state) >> 16) * clients >> 16];
	return ipc_call(to, m) != to;
}

u32 pingpong(void)
{
	u32 rounds = option_number("rounds", 100000);
	struct message m = { { 0 } };
	clients = option_number("clients", 1);
	random_state = option_number("seed", 1) * 2654435761u | 1;
	lines = option_number("lines", 0);
	if (lines > MAX_LINES)
		lines = MAX_LINES;
	for (u32 i = 0; i < clients; i++) {
		start_or_stop(i, lines ? touching_client : client, self(), PRIORITY);
		threads[i] = processes[i].thread;
	}
	for (u32 i = 0; i < clients; i++)
		ipc_receive(ANY, &m);
	// A warm lap, not measured: every client is called once.
	for (u32 i = 0; i < clients; i++)
		ipc_call(threads[i], &m);
	struct lap lap;
	lap_start(&lap);
	if (lines)
		for (u32 i = 0; i < rounds; i++) {
			errors += call_somebody(&m);
			touch(lines);
		}
	else
		for (u32 i = 0; i < rounds; i++)
			errors += call_somebody(&m);
	lap_end(&lap);
	print("pingpong: %u clients, %u round trips, %u errors\n", clients, rounds, errors);
	print("= pingpong clients=%u", clients);
	lap_print(&lap, rounds);
	return errors;
}
