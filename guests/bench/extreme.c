// The StrongARM paper's TLB benchmark (section 4.1): children read one byte of each of the same pages,
// mapped privately or shared, and yield. All these bytes lie in one set of the data cache: which, `byte` tells.
#include "bench.h"

#define SHARED_AT 0x80000000
#define PRIVATE_AT 0x00040000
#define MAX_PAGES 64

static u32 pages, laps, byte;
static bool shared;

static void child(u32 parent)
{
	struct message m = { { 0 } };
	ipc_call(parent, &m);
	volatile const char *at = (volatile const char *)(shared ? SHARED_AT : PRIVATE_AT) + byte;
	u32 count = pages;
	// Warm laps, then a pause until the parent starts the clock.
	for (u32 lap = 0; lap < 3; lap++) {
		for (u32 i = 0; i < count; i++)
			at[i * PAGE_BYTES];
		yield();
	}
	ipc_call(parent, &m);
	for (u32 lap = laps; lap; lap--) {
		for (u32 i = 0; i < count; i++)
			at[i * PAGE_BYTES];
		yield();
	}
	ipc_call(parent, &m);
}

u32 extreme(void)
{
	u32 n = option_number("processes", 2), errors = 0;
	pages = option_number("pages", 16);
	laps = option_number("laps", 200);
	byte = option_number("byte", 0) % PAGE_BYTES;
	shared = option("mapping", "shared");
	if (pages > MAX_PAGES)
		pages = MAX_PAGES;
	if (shared)
		errors += map(0, SHARED_AT, pages, READ_WRITE) != 0;
	struct message m = { { 0 } };
	for (u32 i = 0; i < n; i++) {
		start_or_stop(i, child, self(), PRIORITY);
		if (shared)
			errors += share(0, SHARED_AT, processes[i].space, SHARED_AT, 256, READ_WRITE) != 0;
		else
			errors += map(processes[i].space, PRIVATE_AT, pages, READ_WRITE) != 0;
	}
	for (u32 i = 0; i < n; i++)
		ipc_receive(ANY, &m);
	struct lap lap;
	// The children are ready when they have all called; the parent's last message starts the last one.
	for (u32 round = 0; round < 2; round++) {
		if (round == 1)
			lap_start(&lap);
		for (u32 i = 0; i < n; i++)
			ipc_send(processes[i].thread, &m);
		for (u32 i = 0; i < n; i++)
			ipc_receive(ANY, &m);
	}
	lap_end(&lap);
	print("extreme: %u processes, %u pages, %s, %u errors\n", n, pages, shared ? "shared" : "private", errors);
	print("= extreme processes=%u pages=%u shared=%u", n, pages, shared);
	lap_print(&lap, laps * n);
	return errors;
}
