// A token goes round a ring of processes, each of which sums an array of its own before it passes the
// token on: lmbench's lat_ctx with messages in place of pipes.
#include "bench.h"

#define ARRAY ((volatile u32 *)0x00040000)

static u32 bytes, rounds;

static u32 sum(u32 words)
{
	volatile u32 *at = ARRAY;
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
	ipc_send(starter, &m);
	ipc_receive(ANY, &m);
	for (;;) {
		m.word[1] += sum(words);
		ipc_reply_and_wait(next, &m);
	}
}

u32 ring(void)
{
	u32 n = option_number("processes", 2);
	struct message m = { { 0 } };
	bytes = option_number("kilobytes", 0) * 1024;
	rounds = option_number("rounds", 200);
	// This process is a member too.
	if (bytes)
		map(0, (u32)ARRAY, PAGES(bytes), READ_WRITE);
	for (u32 i = 1; i < n; i++) {
		start_or_stop(i, member, self(), PRIORITY);
		if (bytes)
			map(processes[i].space, (u32)ARRAY, PAGES(bytes), READ_WRITE);
	}
	for (u32 i = 1; i < n; i++)
		ipc_receive(ANY, &m);
	for (u32 i = 1; i < n; i++) {
		m.word[0] = i + 1 < n ? processes[i + 1].thread : self();
		ipc_call(processes[i].thread, &m);
	}
	m.word[1] = 0;
	u32 first = processes[1].thread, words = bytes / 4;
	struct lap lap, alone;
	ipc_reply_and_wait(first, &m); // a warm lap
	lap_start(&lap);
	for (u32 i = 0; i < rounds; i++) {
		m.word[1] += sum(words);
		ipc_reply_and_wait(first, &m);
	}
	lap_end(&lap);
	sum(words);
	lap_start(&alone);
	for (u32 i = 0; i < 10; i++)
		sum(words);
	lap_end(&alone);
	print("ring: %u processes, %u bytes, %u rounds, sum %u\n", n, bytes, rounds, m.word[1]);
	print("= ring processes=%u bytes=%u work=%U", n, bytes, alone.cycles / 10);
	lap_print(&lap, rounds * n);
	return m.word[1];
}
