// When a switch flushes the caches: each of the conditions that the FCSE paper names (sections 4.1 and
// 4.2), and the opposite of each, which must not flush. What spaces may map is told first.
#include "bench.h"

#define PIDS 95 // of Linux with a user space of 3 GB (4.1); the simulated kernel has as many

enum command { NOTHING, LOAD, STORE };

// Tells the flushes counted when it began to run and when it left.
static void subject(u32 root)
{
	struct message m = { { 0 } };
	for (;;) {
		ipc_call(root, &m);
		volatile u32 *at = (volatile u32 *)m.word[1];
		u32 command = m.word[0];
		m.word[0] = counter(COUNT_FLUSHES);
		if (command == LOAD)
			*at;
		else if (command == STORE)
			*at = 1;
		m.word[1] = counter(COUNT_FLUSHES);
	}
}

static bool start(struct process *process)
{
	struct message m = { { 0 } };
	if (!process_start(process, subject, self(), PRIORITY, self()))
		return false;
	ipc_receive(process->thread, &m);
	return true;
}

// A switch to the process and one back.
static void visit(const char *name, const struct process *process, enum command command, u32 address)
{
	struct message m = { { command, address } };
	u32 before = counter(COUNT_FLUSHES);
	ipc_call(process->thread, &m);
	u32 after = counter(COUNT_FLUSHES);
	if (name)
		print("= switch name=%s to=%u within=%u from=%u\n", name, m.word[0] - before, m.word[1] - m.word[0],
		      after - m.word[1]);
}

static void limits(u32 space)
{
	bool inside = map(space, SLOT_END - PAGE_BYTES, 1, READ_WRITE) == 0;
	unmap(space, SLOT_END - PAGE_BYTES, 1);
	bool across = map(space, SLOT_END - PAGE_BYTES, 2, READ_WRITE) == 0;
	unmap(space, SLOT_END - PAGE_BYTES, 2);
	bool above = map(space, FIXED_AT, 1, READ_WRITE) == 0;
	unmap(space, FIXED_AT, 1);
	print("= limits inside=%u across=%u above=%u\n", inside, across, above);
}

u32 switches(void)
{
	struct process *p = processes;
	u32 started = 0;
	while (started < PIDS + 8 && start(&p[started]))
		started++;
	print("switches: spaces up to the scheme's limit\n");
	print("= spaces started=%u\n", started + 1); // this one is a space too
	limits(p[started - 1].space);

	visit(0, &p[0], NOTHING, 0);
	visit("small", &p[0], NOTHING, 0);
	if (started > PIDS) {
		// This space has PID 1, p[0] PID 2; PID 0 is for the large ones. After 94 the PIDs come again.
		struct process *again = p + PIDS - 1;
		visit("group_dirty_another_last", &again[0], NOTHING, 0);
		visit("same_process_last", &again[0], NOTHING, 0);
		visit(0, &p[1], NOTHING, 0);
		visit("flush_before_the_next", &p[0], NOTHING, 0);
		visit("another_last_but_flushed_since", &again[1], NOTHING, 0);
		visit("dirty_again", &p[1], NOTHING, 0);
		visit("another_last_but_flushed_since", &again[0], NOTHING, 0);
	}
	if (map(p[2].space, FIXED_AT, 1, READ_WRITE) == 0) {
		visit("large", &p[2], STORE, FIXED_AT);
		visit("large", &p[2], NOTHING, 0);
		unmap(p[2].space, FIXED_AT, 1);
		visit(0, &p[2], NOTHING, 0);
		visit("small_again", &p[2], NOTHING, 0);
	}
	map(p[3].space, LOW_AT, 1, READ_WRITE);
	share(p[3].space, LOW_AT, p[4].space, LOW_AT + 0x3000, 1, READ_WRITE);
	visit(0, &p[3], LOAD, LOW_AT);
	visit("shared_and_read", &p[3], LOAD, LOW_AT);
	visit(0, &p[4], LOAD, LOW_AT + 0x3000);
	visit("shared_and_read", &p[4], LOAD, LOW_AT + 0x3000);
	visit(0, &p[3], STORE, LOW_AT);
	visit("shared_and_written", &p[3], NOTHING, 0);
	visit("of_a_sharer_that_only_read", &p[4], NOTHING, 0);
	unmap(p[3].space, LOW_AT, 1);
	visit(0, &p[3], NOTHING, 0);
	visit("unmapped_after_writing", &p[3], NOTHING, 0);
	print("switches: done\n");
	return 0;
}
