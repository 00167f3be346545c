// Further attacks of attacks.c: on who gets the processor, and when.
#include "bench.h"

#define STACK_AT 0x00700000 // of a thread in the root's own space

static u32 start_thread(void (*program)(u32), u32 argument, u32 priority)
{
	static u32 stack = STACK_AT;
	map(0, stack, 1, READ_WRITE);
	stack += PAGE_BYTES;
	return thread_create(0, (u32)program, stack, argument, priority, self());
}

static void run_until(u32 time)
{
	while ((int)(clock_microseconds() - time) < 0)
		;
}

// ---- sleepers ----------------------------------------------------------------------------------
static volatile u32 woken;

static void sleeper(u32 time)
{
	sleep_until(time);
	woken++;
	thread_destroy(self());
}

// A program sleeps until nearly 2^31 us from now. Then others sleep until times that have passed, and that come soon.
u32 sleep_trap(void)
{
	u32 now = clock_microseconds();
	start_or_stop(0, sleeper, now + 0x7fffffff, PRIORITY + 1);
	start_thread(sleeper, now - 1, PRIORITY + 1);
	start_thread(sleeper, now - 5000, PRIORITY + 1);
	start_thread(sleeper, now + 10000, PRIORITY + 1);
	run_until(now + 20000);
	return 3 - woken;
}

// ---- turns -------------------------------------------------------------------------------------
#define SLICE 10000
#define EQUALS 2

static volatile u32 turns[EQUALS];

static void spinner(u32 i)
{
	for (;;)
		turns[i]++;
}

static u32 without_a_turn(void)
{
	u32 without = 0;
	for (u32 i = 0; i < EQUALS; i++) {
		without += !turns[i];
		turns[i] = 0;
	}
	return without;
}

// Do all of several worse equals get a turn while a better thread sleeps, and while it wakes often? Then also while it
// takes most of two slices, over and over, and leaves the others the end of each second one.
u32 slices(void)
{
	for (u32 i = 0; i < EQUALS; i++)
		start_thread(spinner, i, 0);
	u32 time = clock_microseconds(), through = 0;
	sleep_until(time += 2 * EQUALS * SLICE);
	through += without_a_turn();
	for (u32 i = 0; i < 2 * EQUALS; i++)
		sleep_until(time += SLICE * 9 / 10);
	through += without_a_turn();
	for (u32 i = 0; i < EQUALS + 1; i++) {
		run_until(time + SLICE * 19 / 10);
		sleep_until(time += 2 * SLICE);
	}
	return through + without_a_turn();
}

// ---- what makes a wake-up late -----------------------------------------------------------------
#define MAPPINGS 1000
#define PAGES_AT 0x00200000
#define SLOTS 16 // its own is among the first
#define LATE_MICROSECONDS 1500

// A page that could once be written is at many addresses. Then the program maps pages above 32 MB, in its own slot, too:
// under FASS and best effort FCSE it moves to slot 0.
static void mover(u32 root)
{
	struct message m = { { 0 } };
	map(0, PAGES_AT, 1, READ_WRITE);
	for (u32 i = 0; i < MAPPINGS; i++) // the first takes its own right to write
		share(0, PAGES_AT, 0, PAGES_AT + i * PAGE_BYTES, 1, RIGHT_READ);
	ipc_call(root, &m);
	for (u32 slot = 1; slot < SLOTS; slot++)
		map(0, slot * SLOT_END, 1, READ_WRITE);
	ipc_call(root, &m);
}

static volatile u32 most_late;

static void watch(u32 unused)
{
	(void)unused;
	for (u32 time = clock_microseconds();;) {
		time += 300;
		u32 woken = sleep_until(time);
		if (woken - time > most_late)
			most_late = woken - time;
		time = woken;
	}
}

// How late does a thread of a better priority wake? QEMU's clock is the host's, so there it is not judged.
u32 move_latency(void)
{
	struct message m = { { 0 } };
	start_thread(watch, 0, PRIORITY + 8);
	start_or_stop(0, mover, self(), PRIORITY);
	ipc_receive(processes[0].thread, &m);
	most_late = 0;
	ipc_call(processes[0].thread, &m);
	if (!LAB[LAB_CLOCK_HZ])
		return 0;
	print("= attack latency_microseconds=%u\n", most_late);
	return most_late > LATE_MICROSECONDS;
}
