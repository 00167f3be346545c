// What single events cost: each is made to happen and timed by the process it happens to.
#include "bench.h"

enum command { TOUCH, STORE, NOTHING_TO_DO };

// Times one access with its own view of the instrumentation device.
static void subject(u32 root)
{
	struct message m = { { 0 } };
	for (;;) {
		ipc_call(root, &m);
		volatile u32 *at = (volatile u32 *)m.word[1];
		u32 start = LAB[LAB_CYCLES];
		if (m.word[0] == TOUCH)
			*at;
		else if (m.word[0] == STORE)
			*at = 1;
		m.word[0] = LAB[LAB_CYCLES] - start;
	}
}

static struct process start(void)
{
	struct process process;
	struct message m = { { 0 } };
	if (!process_start(&process, subject, self(), PRIORITY, self())) {
		process.thread = 0;
		return process;
	}
	lab_start(process.space);
	ipc_receive(process.thread, &m);
	return process;
}

static u32 time(struct process *process, enum command command, u32 address)
{
	struct message m = { { command, address } };
	ipc_call(process->thread, &m);
	return m.word[0];
}

// One line for one event: cycles, and which counters moved.
static void result(const char *name, u32 cycles)
{
	print("= event name=%s cycles=%u flushes=%u tlb_flushes=%u collisions=%u fills=%u recycled_dirty=%u recycled_clean=%u grown=%u "
	      "written_shared=%u page_flushes=%u\n",
	      name, cycles, counted(COUNT_FLUSHES), counted(COUNT_TLB_FLUSHES), counted(COUNT_COLLISIONS), counted(COUNT_FILLS),
	      counted(COUNT_RECYCLED_DIRTY), counted(COUNT_RECYCLED_CLEAN), counted(COUNT_GROWN), counted(COUNT_WRITTEN_SHARED),
	      counted(COUNT_PAGE_FLUSHES));
}

static void event(const char *name, struct process *process, enum command command, u32 address)
{
	count_from_here();
	result(name, time(process, command, address));
}

static u32 round_trip(struct process *process)
{
	u32 begin = LAB[LAB_CYCLES];
	time(process, NOTHING_TO_DO, 0);
	return LAB[LAB_CYCLES] - begin;
}

#define TIMED(name, statement)                                                                     \
	do {                                                                                       \
		count_from_here();                                                                 \
		u32 begin = LAB[LAB_CYCLES];                                                       \
		statement;                                                                         \
		result(name, LAB[LAB_CYCLES] - begin);                                             \
	} while (0)

u32 events(void)
{
	lab_name(LAB_NAME_EVENT, 1, "collision");
	struct process a = start(), b = start(), c;
	for (u32 i = 0; i < 3; i++)
		round_trip(&a), round_trip(&b);
	count_from_here();
	result("round_trip", round_trip(&a));
	for (u32 i = 0; i < 5; i++)
		TIMED("null_call", self());
	TIMED("map_page", map(a.space, LOW_AT, 1, READ_WRITE));
	event("first_touch", &a, STORE, LOW_AT);
	event("touch_again", &a, STORE, LOW_AT);
	TIMED("copy_page", copy(a.space, LOW_AT, b.space, LOW_AT, 1));
	event("copy_on_write", &a, STORE, LOW_AT);
	TIMED("unmap_page", unmap(a.space, LOW_AT, 1));
	TIMED("space_create", c = start());
	TIMED("space_destroy", process_end(&c));

	// Two spaces map the same fixed address. Under guaranteed FCSE it is refused.
	bool refused;
	TIMED("map_above_32_mb", refused = map(a.space, FIXED_AT, 1, READ_WRITE) < 0);
	refused |= map(b.space, FIXED_AT, 1, READ_WRITE) < 0;
	print("growth past 32 MB is possible or refused\n");
	print("= growth refused=%u\n", refused);
	if (!refused) {
		event("grown_first_touch", &a, STORE, FIXED_AT);
		LAB[LAB_EVENT_BEGIN] = 1;
		event("collision_dirty", &b, STORE, FIXED_AT);
		LAB[LAB_EVENT_END] = 1;
		event("collision_again", &b, STORE, FIXED_AT);
		event("collision_back", &a, STORE, FIXED_AT);
		unmap(a.space, FIXED_AT, 1);
		unmap(b.space, FIXED_AT, 1);
	}

	// Written sharing at different addresses.
	map(a.space, LOW_AT + 0x2000, 1, READ_WRITE);
	share(a.space, LOW_AT + 0x2000, b.space, LOW_AT + 0x5000, 1, READ_WRITE);
	event("shared_read", &b, TOUCH, LOW_AT + 0x5000);
	event("shared_first_write", &a, STORE, LOW_AT + 0x2000);
	event("shared_write", &a, STORE, LOW_AT + 0x2000);
	count_from_here();
	result("round_trip_after_written_sharing", round_trip(&a));

	// More spaces than domains, then than PIDs.
	u32 started = 0;
	for (u32 i = 0; i < 100; i++) {
		processes[i] = start();
		if (!processes[i].thread)
			break;
		started++;
	}
	print("spaces up to the scheme's limit\n");
	print("= spaces started=%u\n", started);
	for (u32 i = 0; i < 3; i++)
		round_trip(&processes[started - 1]);
	for (u32 i = 0; i < 20; i++) {
		count_from_here();
		u32 cycles = round_trip(&processes[i]);
		bool dirty = counted(COUNT_RECYCLED_DIRTY);
		bool clean = counted(COUNT_RECYCLED_CLEAN);
		bool flushed = counted(COUNT_FLUSHES);
		result(dirty   ? "round_trip_recycled_dirty" :
		       clean   ? "round_trip_recycled_clean" :
		       flushed ? "round_trip_flushed" :
				 "round_trip_other",
		       cycles);
	}
	print("events: done\n");
	return 0;
}
