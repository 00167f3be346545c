// A high-priority process that sleeps until the next period, as cyclictest does, while others pass a
// token and dirty their memory. How late it wakes is measured with the core's cycle counter.
#include "bench.h"

#define ARRAY ((volatile u32 *)0x00040000)
#define TIMER ((volatile u32 *)0x000f1000)
#define LOAD_PROCESSES 8
#define LOAD_BYTES 8192
#define BUCKETS 200

static u32 period, samples;

static void load(u32 starter)
{
	struct message m = { { 0 } };
	ipc_call(starter, &m);
	u32 next = m.word[0];
	ipc_receive(ANY, &m);
	for (u32 round = 0;; round++) {
		for (u32 i = 0; i < LOAD_BYTES / 4; i += 4)
			ARRAY[i] += round;
		ipc_reply_and_wait(next, &m);
	}
}

static u32 clock_direct(void)
{
	return ~TIMER[9];
}

static void task(u32 starter)
{
	static u32 histogram[BUCKETS];
	struct message m = { { 0 } };
	ipc_call(starter, &m); // until the devices are mapped
	u32 cycles_per_microsecond = LAB[LAB_CLOCK_HZ] / 1000000;
	// Where the clock's ticks fall in cycles.
	u32 start = clock_direct(), before = start;
	while ((start = clock_direct()) == before)
		;
	uint64_t start_cycles = lab_cycles();
	uint64_t sum = 0, squares = 0, last = 0, interval_sum = 0, interval_squares = 0;
	u32 least = ~0u, most = 0, interval_least = ~0u, interval_most = 0, late = 0;
	for (u32 i = 1; i <= samples; i++) {
		u32 time = start + i * period;
		sleep_until(time);
		uint64_t now = lab_cycles();
		u32 latency = now - start_cycles - (uint64_t)(i * period) * cycles_per_microsecond;
		late += clock_direct() - time > period;
		sum += latency;
		squares += (uint64_t)latency * latency;
		least = latency < least ? latency : least;
		most = latency > most ? latency : most;
		u32 bucket = cycles_per_microsecond ? latency / cycles_per_microsecond : 0;
		histogram[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
		if (last) {
			u32 interval = now - last;
			interval_sum += interval;
			interval_squares += (uint64_t)interval * interval;
			interval_least = interval < interval_least ? interval : interval_least;
			interval_most = interval > interval_most ? interval : interval_most;
		}
		last = now;
	}
	print("periodic: period %u us, %u samples\n", period, samples);
	print("= periodic period=%u samples=%u late=%u per_microsecond=%u sum=%U squares=%U least=%u most=%u "
	      "interval_sum=%U interval_squares=%U interval_least=%u interval_most=%u\n",
	      period, samples, late, cycles_per_microsecond, sum, squares, least, most, interval_sum, interval_squares, interval_least,
	      interval_most);
	if (cycles_per_microsecond) {
		print("= histogram");
		for (u32 i = 0; i < BUCKETS; i++)
			if (histogram[i])
				print(" %u=%u", i, histogram[i]);
		print("\n");
	}
	ipc_call(starter, &m);
}

u32 periodic(void)
{
	struct message m = { { 0 } };
	period = option_number("period", 1000);
	samples = option_number("samples", 200);
	start_or_stop(0, task, self(), PRIORITY + 8);
	lab_start(processes[0].space);
	map_device(processes[0].space, (u32)TIMER, 0x101e2000);
	for (u32 i = 1; i <= LOAD_PROCESSES; i++) {
		start_or_stop(i, load, self(), PRIORITY);
		map(processes[i].space, (u32)ARRAY, PAGES(LOAD_BYTES), READ_WRITE);
	}
	for (u32 i = 0; i <= LOAD_PROCESSES; i++)
		ipc_receive(ANY, &m);
	for (u32 i = 1; i <= LOAD_PROCESSES; i++) {
		m.word[0] = processes[i < LOAD_PROCESSES ? i + 1 : 1].thread;
		ipc_send(processes[i].thread, &m);
	}
	ipc_send(processes[1].thread, &m); // the token
	ipc_send(processes[0].thread, &m);
	ipc_receive(processes[0].thread, &m);
	return 0;
}
