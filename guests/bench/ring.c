// A token goes round a ring of processes, each of which sums an array of its own before it passes the
// token on: lmbench's lat_ctx with messages in place of pipes. The arrays lie below 32 MB, or above it with
// `array=apart` in sections of their own and with `array=same` at one address in all processes.
#include "bench.h"

static u32 bytes, rounds;
static volatile u32 *array; // of the process that this is, or of the one started next

static u32 sum(volatile u32 *at, u32 words)
{
	u32 total = 0;
	for (u32 i = 0; i < words; i += 4)
		total += at[i] + at[i + 1] + at[i + 2] + at[i + 3];
	return total;
}

static void member(u32 starter)
{
	struct message m = { { 0 } };
	ipc_call(starter, &m);
	u32 next = m.word[0], words = bytes / 4;
	volatile u32 *at = array; // in a register: a hop touches no data but the array
	ipc_send(starter, &m);
	ipc_receive(ANY, &m);
	for (;;) {
		m.word[1] += sum(at, words);
		ipc_reply_and_wait(next, &m);
	}
}

static volatile u32 *array_of(u32 process)
{
	if (option("array", "apart"))
		return (volatile u32 *)(FIXED_AT + process * SECTION_BYTES);
	return (volatile u32 *)(option("array", "same") ? FIXED_AT : LOW_AT);
}

static void map_array(u32 space)
{
	if (bytes)
		map(space, (u32)array, PAGES(bytes), READ_WRITE);
}

u32 ring(void)
{
	u32 n = option_number("processes", 2);
	if (n < 2)
		n = 2;
	struct message m = { { 0 } };
	bytes = option_number("kilobytes", 0) * 1024;
	rounds = option_number("rounds", 200);
	for (u32 i = 1; i < n; i++) {
		array = array_of(i);
		start_or_stop(i, member, self(), PRIORITY); // with a copy of `array`
		map_array(processes[i].space);
	}
	array = array_of(0); // this process is a member too
	map_array(0);
	for (u32 i = 1; i < n; i++)
		ipc_receive(ANY, &m);
	for (u32 i = 1; i < n; i++) {
		m.word[0] = i + 1 < n ? processes[i + 1].thread : self();
		ipc_call(processes[i].thread, &m);
	}
	m.word[1] = 0;
	u32 first = processes[1].thread, words = bytes / 4;
	volatile u32 *at = array;
	struct lap lap, alone;
	ipc_reply_and_wait(first, &m); // a warm lap
	lap_start(&lap);
	for (u32 i = 0; i < rounds; i++) {
		m.word[1] += sum(at, words);
		ipc_reply_and_wait(first, &m);
	}
	lap_end(&lap);
	sum(at, words);
	lap_start(&alone);
	for (u32 i = 0; i < 10; i++)
		sum(at, words);
	lap_end(&alone);
	print("ring: %u processes, %u bytes, %u rounds, sum %u\n", n, bytes, rounds, m.word[1]);
	print("= ring processes=%u bytes=%u work=%U", n, bytes, alone.cycles / 10);
	lap_print(&lap, rounds * n);
	return m.word[1];
}
