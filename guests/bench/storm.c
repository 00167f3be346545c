// hackbench with messages: groups of 20 senders and 20 receivers, each sender sends to each receiver of
// its group, again and again. A message's 100 bytes are written by the sender and read by the receiver;
// a register message carries their first words.
#include "bench.h"

#define MEMBERS 20

static u32 loops;
static u32 receivers[MEMBERS];

static u32 touch(u32 seed)
{
	u32 buffer[25];
	volatile u32 *at = buffer;
	for (u32 i = 0; i < 25; i++)
		at[i] = seed;
	u32 total = 0;
	for (u32 i = 0; i < 25; i++)
		total += at[i];
	return total;
}

static void receiver(u32 starter)
{
	struct message m = { { 0 } };
	u32 total = 0, expected = loops * MEMBERS;
	for (u32 i = 0; i < expected; i++) {
		ipc_receive(ANY, &m);
		touch(m.word[0]);
		total += m.word[0];
	}
	m.word[0] = total;
	ipc_call(starter, &m);
}

static void sender(u32 starter)
{
	struct message m = { { 0 } };
	ipc_receive(starter, &m);
	for (u32 loop = 0; loop < loops; loop++)
		for (u32 i = 0; i < MEMBERS; i++) {
			touch(i);
			m.word[0] = i + 1;
			ipc_send(receivers[i], &m);
		}
	m.word[0] = 0;
	ipc_call(starter, &m);
}

u32 storm(void)
{
	u32 groups = option_number("groups", 10), count = 0, errors = 0;
	loops = option_number("loops", 10);
	struct message m = { { 0 } };
	for (u32 group = 0; group < groups; group++) {
		for (u32 i = 0; i < MEMBERS; i++) {
			start_or_stop(count, receiver, self(), PRIORITY);
			receivers[i] = processes[count++].thread;
		}
		for (u32 i = 0; i < MEMBERS; i++)
			start_or_stop(count++, sender, self(), PRIORITY);
	}
	struct lap lap;
	lap_start(&lap);
	for (u32 i = 0; i < count; i++)
		if (i / MEMBERS % 2)
			ipc_send(processes[i].thread, &m);
	u32 total = 0;
	for (u32 i = 0; i < count; i++) {
		ipc_receive(ANY, &m);
		total += m.word[0];
	}
	lap_end(&lap);
	u32 messages = groups * MEMBERS * MEMBERS * loops;
	errors = total != groups * loops * MEMBERS * (MEMBERS * (MEMBERS + 1) / 2);
	print("storm: %u processes, %u messages, %u errors\n", count, messages, errors);
	print("= storm processes=%u", count);
	lap_print(&lap, messages);
	return errors;
}
