// What each system call returns and does, right and wrong arguments alike, checked one by one. Everything lies
// below 32 MB but where it is said, so that all schemes do the same.
#include "bench.h"

#define LOW_AT 0x00040000
#define OTHER_AT 0x00080000
#define STACKS_AT 0x00700000 // of threads in the root's own space
#define FIXED_AT 0x90000000
#define USER_LIMIT 0xbe000000
#define SP804 0x101e2000
#define PL011 0x101f1000
#define MEMORY_END 0x02000000 // that the kernel knows of
#define MOST_THREADS 512
#define MOST_PIDS 95 // that any core and scheme uses
#define NOBODY 0xffff0000 // no thread has this id

static u32 errors;

static void check(bool holds, const char *what)
{
	if (holds)
		return;
	errors++;
	print("error: %s\n", what);
}

enum command { READ, WRITE, MAP, UNMAP };

static u32 obey(struct message *order)
{
	volatile u32 *at = (volatile u32 *)order->word[1];
	switch (order->word[0]) {
	case READ:
		return *at;
	case WRITE: // a dirty line: most cores fetch a line only to read it
		*at;
		*at = order->word[2];
		return 0;
	case MAP:
		return map(0, (u32)at, 1, READ_WRITE);
	default:
		return unmap(0, (u32)at, 1);
	}
}

static void agent(u32 root)
{
	agent_loop(root, obey);
}

static struct process first, second, third, fourth;

static bool reads(struct process *process, u32 address, u32 value)
{
	u32 result;
	return agent_ask(process, agent, READ, address, 0, &result) && result == value;
}

static bool writes(struct process *process, u32 address, u32 value)
{
	u32 result;
	return agent_ask(process, agent, WRITE, address, value, &result);
}

static void start_all(void)
{
	agent_start(&first, agent);
	agent_start(&second, agent);
	agent_start(&third, agent);
}

static void end_all(void)
{
	process_end(&first);
	process_end(&second);
	process_end(&third);
}

// ---- messages ----------------------------------------------------------------------------------
static char order_of_events[32];
static u32 events_so_far;

static void happened(char what)
{
	if (events_so_far + 1 < sizeof order_of_events)
		order_of_events[events_so_far++] = what;
}

static bool happened_exactly(const char *expected)
{
	u32 i = 0;
	while (i < events_so_far && expected[i] == order_of_events[i])
		i++;
	bool same = i == events_so_far && !expected[i];
	if (!same)
		print("error: order %s\n", order_of_events);
	for (i = 0; i < sizeof order_of_events; i++)
		order_of_events[i] = 0;
	events_so_far = 0;
	return same;
}

static u32 root_thread;

// So that no time slice ends in the middle: 10 ms from now.
static void fresh_slice(void)
{
	sleep_until(clock_microseconds() + 1);
}

static void let_others_run(void)
{
	for (u32 i = 0; i < 4; i++)
		yield();
}

static u32 thread(void (*program)(u32), u32 index, u32 argument, u32 priority)
{
	return thread_create(0, (u32)program, STACKS_AT + (index + 1) * PAGE_BYTES, argument, priority, root_thread);
}

static void echo(u32 root) // each word and one more, until the first word is 99
{
	struct message m = { { 0 } };
	ipc_receive(root, &m);
	while (m.word[0] != 99) {
		for (u32 i = 0; i < 6; i++)
			m.word[i]++;
		ipc_call(root, &m);
	}
	m.word[0] = ipc_send(root, &m);
	happened(m.word[0] == 0 ? 's' : 'X');
	ipc_receive(NOBODY - 1, &m);
}

static void sender(u32 name)
{
	struct message m = { { name } };
	happened(name);
	u32 result = ipc_call(root_thread, &m);
	happened(result == root_thread ? name - 32 : result == (u32)ERROR_NO_THREAD ? '!' : '?');
	thread_destroy(self());
}

static u32 sent_to;
static void sends_elsewhere(u32 name)
{
	struct message m = { { name } };
	u32 result = ipc_send(sent_to, &m);
	happened(result == (u32)ERROR_NO_THREAD ? 'n' : result ? '?' : '0');
	thread_destroy(self());
}

static void waits_for(u32 whom)
{
	struct message m = { { 0 } };
	happened(ipc_receive(whom, &m) == (u32)ERROR_NO_THREAD ? 'g' : '?');
	thread_destroy(self());
}

static void messages(void)
{
	struct message m = { { 1, 2, 3, 4, 5, 6 } };
	u32 it = thread(echo, 0, root_thread, PRIORITY);
	check(!is_error(it) && it != root_thread, "a thread's id");
	check(ipc_send(it, &m) == 0, "a message that is received at once returns 0");
	check(ipc_receive(it, &m) == it, "the sender's id");
	for (u32 i = 0; i < 6; i++)
		check(m.word[i] == i + 2, "a word of a message");
	check(ipc_call(it, &m) == it && m.word[0] == 3, "a call and its answer");
	check(ipc_call(NOBODY, &m) == (u32)ERROR_NO_THREAD, "a message to nobody");
	check(ipc_send(root_thread, &m) == (u32)ERROR_NO_THREAD, "a message to oneself");
	check(ipc_receive(NOBODY, &m) == (u32)ERROR_NO_THREAD, "a message from nobody");
	check(ipc_receive(root_thread, &m) == (u32)ERROR_NO_THREAD, "a message from oneself");
	m.word[0] = 99;
	ipc_send(it, &m);
	check(ipc_receive(ANY, &m) == it, "a message that was only sent");
	let_others_run();
	check(happened_exactly("s"), "a message that waited returns 0");
	thread_destroy(it);
	check(ipc_send(it, &m) == (u32)ERROR_NO_THREAD, "a message to a destroyed thread");
	check(thread_destroy(it) == ERROR_NO_THREAD, "a thread is destroyed twice");
	check(thread_destroy(0) == ERROR_NO_THREAD, "no thread is destroyed");

	fresh_slice();
	// Three wait to send, in this order; the middle one is wanted first.
	u32 a = thread(sender, 0, 'a', PRIORITY), b = thread(sender, 1, 'b', PRIORITY), c = thread(sender, 2, 'c', PRIORITY);
	let_others_run();
	check(ipc_receive(b, &m) == b && m.word[0] == 'b', "a message from one of those that wait");
	check(ipc_receive(ANY, &m) == a && m.word[0] == 'a', "who came first is served first");
	check(ipc_receive(ANY, &m) == c && m.word[0] == 'c', "and then the last");
	ipc_send(c, &m);
	ipc_send(a, &m);
	thread_destroy(b);
	let_others_run();
	check(happened_exactly("abcCA"), "who waits for an answer gets it");

	fresh_slice();
	// Threads that send to one that is destroyed, or wait for it, learn of it.
	sent_to = thread(sender, 0, 'd', PRIORITY);
	let_others_run();
	thread(sends_elsewhere, 1, 0, PRIORITY);
	thread(sends_elsewhere, 2, 0, PRIORITY);
	thread(waits_for, 3, sent_to, PRIORITY);
	let_others_run();
	thread_destroy(sent_to);
	check(ipc_receive(sent_to, &m) == (u32)ERROR_NO_THREAD, "its own message is gone");
	let_others_run();
	check(happened_exactly("dnng"), "a destroyed partner is told");
	fresh_slice();
	// One of those that wait to send is destroyed, and the list goes on without it.
	a = thread(sender, 0, 'a', PRIORITY), b = thread(sender, 1, 'b', PRIORITY), c = thread(sender, 2, 'c', PRIORITY);
	let_others_run();
	thread_destroy(b);
	check(ipc_receive(ANY, &m) == a && ipc_receive(ANY, &m) == c, "the list without a destroyed sender");
	thread_destroy(a);
	thread_destroy(c);
	happened_exactly("abc");
}

// ---- faults ------------------------------------------------------------------------------------
static void faults(void)
{
	struct message m = { { WRITE, OTHER_AT + 8, 5, 7, 7, 7 } };
	start_all();
	check(ipc_call(first.thread, &m) == first.thread && m.word[0] == FAULT_DATA && m.word[1] == OTHER_AT + 8,
	      "a fault's kind and address");
	check(m.word[2] >= 0x8000 && m.word[2] < LOW_AT, "its program counter");
	check(!m.word[3] && !m.word[4] && !m.word[5], "and no more");
	check(map(first.space, OTHER_AT, 1, READ_WRITE) == 0, "the pager maps what was missing");
	check(ipc_call(first.thread, &m) == first.thread && m.word[0] == 0, "the reply lets it try again");
	check(reads(&first, OTHER_AT + 8, 5), "what it then wrote");
	map(first.space, LOW_AT, 1, RIGHT_READ);
	check(!writes(&first, LOW_AT, 1), "a page that is only for reading is written");
	check(reads(&first, LOW_AT, 0), "a fresh page is zero");
	check(!reads(&first, LOW_AT + PAGE_BYTES, 0), "the next page is not there");
	check(!reads(&first, LOW_AT - PAGE_BYTES, 0), "nor the one before");
	end_all();
}

// ---- threads and time --------------------------------------------------------------------------
static void tell(u32 name)
{
	for (u32 i = 0; i < 2; i++) {
		happened(name);
		yield();
	}
	thread_destroy(self());
}

static u32 wake_at;
static void sleeper(u32 name)
{
	u32 time = wake_at + (name - 'a') * 1000;
	happened(sleep_until(time) >= time ? name : '?');
	thread_destroy(self());
}

static void quick(u32 name)
{
	happened(name);
	thread_destroy(self());
}

static u32 handed_to;
static void waiting(u32 name)
{
	struct message m = { { 0 } };
	ipc_receive(root_thread, &m);
	quick(name);
}

// A thread begins with nothing of whoever had its record before.
static volatile u32 first_registers[12]; // written in assembly
static __attribute__((used)) void registers_end(void)
{
	thread_destroy(self());
}
__attribute__((naked)) static void registers_store(u32 argument)
{
	(void)argument;
	__asm__ volatile("ldr r0, 1f\n\tstmia r0, {r1-r12}\n\tb registers_end\n1:\t.word first_registers");
}
__attribute__((naked)) static void registers_fill(u32 argument)
{
	(void)argument;
	__asm__ volatile("mvn r1, #0\n\tmov r2, r1\n\tmov r3, r1\n\tmov r5, r1\n\tmov r6, r1\n\tmov r7, r1\n\t"
			 "mov r8, r1\n\tmov r9, r1\n\tmov r10, r1\n\tmov r11, r1\n\tmov r12, %0\n"
			 "1:\n\tswi 0\n\tb 1b" ::"i"(CALL_YIELD));
}

// A thread's id is not given again with its record, and there are as many threads as records.
static void many_threads(void)
{
	static u32 ids[MOST_THREADS];
	u32 count = 0;
	while (count < MOST_THREADS && !is_error(ids[count] = thread(quick, 0, 'a', 0)))
		count++;
	// 128 or 512, of which the root has one and the processor's record is another.
	check(count == 126 || count == MOST_THREADS - 2, "how many threads there can be");
	u32 gone = ids[count / 2];
	thread_destroy(gone);
	ids[count / 2] = thread(quick, 0, 'a', 0); // there is only that record
	check(!is_error(ids[count / 2]) && ids[count / 2] != gone, "a destroyed thread's id is another's");
	thread_destroy(ids[count / 2]);
	gone = thread(registers_fill, 1, 0, PRIORITY);
	let_others_run();
	thread_destroy(gone);
	thread(registers_store, 0, 0, PRIORITY);
	let_others_run();
	for (u32 i = 0; i < 12; i++)
		check(!first_registers[i], "a register of a new thread");
	ids[count / 2] = thread(quick, 0, 'a', 0);
	for (u32 i = 0; i < count; i++)
		check(thread_destroy(ids[i]) == 0, "one of many threads");
}

static void threads_and_time(void)
{
	many_threads();
	thread(tell, 0, 'a', PRIORITY + 1);
	check(happened_exactly("aa"), "a better thread runs at once, and yields to none");
	fresh_slice();
	thread(tell, 0, 'a', PRIORITY);
	thread(tell, 1, 'b', PRIORITY);
	thread(tell, 2, 'c', PRIORITY - 1);
	let_others_run();
	check(happened_exactly("abab"), "equal threads take turns, a worse one waits");
	sleep_until(clock_microseconds() + 3000);
	check(happened_exactly("cc"), "a worse one runs while the others sleep");
	wake_at = clock_microseconds() + 50000; // when all sleep, on a busy host too
	thread(sleeper, 0, 'b', PRIORITY + 1);
	thread(sleeper, 1, 'a', PRIORITY + 1);
	thread(sleeper, 2, 'd', PRIORITY + 1);
	thread(sleeper, 3, 'c', PRIORITY + 1);
	u32 gone = thread(sleeper, 4, 'a', PRIORITY + 1);
	thread_destroy(gone);
	check(sleep_until(wake_at + 6000) >= wake_at + 6000, "the time of waking");
	check(happened_exactly("abcd"), "sleepers wake in the order of their times");
	check(sleep_until(clock_microseconds()) != 0, "a time that has come");
	// Whoever gets a message goes first among equals.
	fresh_slice();
	handed_to = thread(waiting, 0, 'h', PRIORITY);
	yield();
	u32 late = thread(sender, 1, 'q', PRIORITY);
	struct message m = { { 0 } };
	ipc(handed_to, late, &m);
	let_others_run();
	thread_destroy(late);
	check(happened_exactly("hq"), "the receiver of a message runs before its equals");
	check(thread_create(0, 0x8000, 0, 0, 64, 0) == (u32)ERROR_INVALID, "a priority that is none");
	check(thread_create(NOBODY, 0x8000, 0, 0, 1, 0) == (u32)ERROR_INVALID, "a thread in no space");
}

// ---- memory ------------------------------------------------------------------------------------
static void ranges(void)
{
	u32 space = first.space;
	check(map(space, LOW_AT + 4, 1, READ_WRITE) == ERROR_INVALID, "an address within a page");
	check(map(space, USER_LIMIT, 1, READ_WRITE) == ERROR_INVALID, "an address of the kernel");
	check(map(space, USER_LIMIT - PAGE_BYTES, 2, READ_WRITE) == ERROR_INVALID, "pages up to the kernel");
	check(map(space, LOW_AT, 0x100000, READ_WRITE) == ERROR_INVALID, "more pages than there are");
	check(map(space, LOW_AT, 0, READ_WRITE) == 0, "no pages");
	check(map(NOBODY, LOW_AT, 1, READ_WRITE) == ERROR_INVALID, "pages of no space");
	check(unmap(space, LOW_AT + 4, 1) == ERROR_INVALID, "unmapped within a page");
	check(unmap(space, LOW_AT, 5) == 0, "unmapped where nothing is");
	check(share(space, LOW_AT + 4, second.space, LOW_AT, 1, RIGHT_READ) == ERROR_INVALID, "shared from within a page");
	check(share(space, LOW_AT, second.space, LOW_AT + 4, 1, RIGHT_READ) == ERROR_INVALID, "shared to within a page");
	check(share(space, LOW_AT, NOBODY, LOW_AT, 1, RIGHT_READ) == ERROR_INVALID, "shared with no space");
	check(copy(space, LOW_AT + 4, second.space, LOW_AT, 1) == ERROR_INVALID, "copied from within a page");
	check(copy(space, LOW_AT, second.space, LOW_AT + 4, 1) == ERROR_INVALID, "copied to within a page");
	check(map_device(space, LOW_AT, 0x00200000) == ERROR_INVALID, "memory as a device");
	check(map_device(space, LOW_AT, 0x101ff004) == ERROR_INVALID, "a device within a page");
	check(space_destroy(NOBODY) == ERROR_INVALID, "no space is destroyed");
	check(space_destroy(0) == ERROR_INVALID, "the caller's own space is destroyed");
	check(counter(COUNTERS) == 0, "a counter that is none");
	check((int)system_call(CALLS, 0, 0, 0, 0, 0, 0) == ERROR_INVALID, "a call that is none");
}

static void sharing(void)
{
	u32 a = first.space, b = second.space, c = third.space;
	map(a, LOW_AT, 2, READ_WRITE);
	check(writes(&first, LOW_AT, 1) && writes(&first, LOW_AT + PAGE_BYTES, 2), "one's own pages");
	check(share(a, LOW_AT, b, OTHER_AT, 2, RIGHT_READ) == 0, "shared for reading");
	check(reads(&second, OTHER_AT, 1) && reads(&second, OTHER_AT + PAGE_BYTES, 2), "the other's view");
	check(!writes(&second, OTHER_AT, 9), "written through a view for reading");
	check(writes(&first, LOW_AT, 3) && reads(&second, OTHER_AT, 3), "the owner writes on");
	check(share(b, OTHER_AT, c, LOW_AT, 1, READ_WRITE) == ERROR_INVALID, "a view for reading is given on for writing");
	check(share(a, LOW_AT, c, LOW_AT, 1, READ_WRITE) == 0 && writes(&third, LOW_AT, 4), "shared for writing");
	check(reads(&first, LOW_AT, 4) && reads(&second, OTHER_AT, 4), "both others see it");
	check(copy(a, LOW_AT, c, OTHER_AT, 2) == 0, "a shared page is copied");
	check(writes(&first, LOW_AT, 5) && writes(&third, OTHER_AT, 6), "the copy and the page");
	check(reads(&third, OTHER_AT, 6) && reads(&first, LOW_AT, 5) && reads(&third, LOW_AT, 5), "are two");
	// Its own page, which it has written to: the sharer sees what it writes next.
	volatile u32 *own = (volatile u32 *)OTHER_AT;
	map(0, OTHER_AT, 1, READ_WRITE);
	*own = 1;
	check(share(0, OTHER_AT, b, LOW_AT, 1, READ_WRITE) == 0, "one's own page is shared");
	*own = 2;
	check(reads(&second, LOW_AT, 2) && writes(&second, LOW_AT, 3) && *own == 3, "and written by both");
	unmap(0, OTHER_AT, 1);
	unmap(b, LOW_AT, 1);
	unmap(a, LOW_AT, 1);
	check(!reads(&first, LOW_AT, 5), "unmapped");
	check(reads(&second, OTHER_AT, 5) && reads(&third, LOW_AT, 5), "the others keep it");
	unmap(b, OTHER_AT, 2);
	unmap(c, LOW_AT, 1);
	unmap(c, OTHER_AT, 2);
	unmap(a, LOW_AT, 2);
}

static void copies(void)
{
	u32 a = first.space, b = second.space, c = third.space;
	map(a, LOW_AT, 1, READ_WRITE);
	writes(&first, LOW_AT, 1);
	check(copy(a, LOW_AT, b, LOW_AT, 1) == 0 && copy(b, LOW_AT, c, LOW_AT, 1) == 0, "a copy of a copy");
	check(reads(&third, LOW_AT, 1), "what it holds");
	check(writes(&second, LOW_AT, 2), "a copy is written");
	check(reads(&first, LOW_AT, 1) && reads(&third, LOW_AT, 1), "and the others keep theirs");
	check(writes(&first, LOW_AT, 3), "the source is written");
	check(reads(&second, LOW_AT, 2) && reads(&third, LOW_AT, 1), "and the copies keep theirs");
	check(writes(&third, LOW_AT, 4) && reads(&first, LOW_AT, 3) && reads(&second, LOW_AT, 2), "the last one alone");
	// What is shared for writing is nobody's copy.
	copy(a, LOW_AT, b, LOW_AT, 1);
	check(share(a, LOW_AT, c, OTHER_AT, 1, READ_WRITE) == 0, "a page that was copied is shared");
	check(writes(&third, OTHER_AT, 5), "and written");
	check(reads(&first, LOW_AT, 5) && reads(&second, LOW_AT, 3), "the sharer sees it, the copy does not");
	check(writes(&second, LOW_AT, 6) && reads(&first, LOW_AT, 5), "and the other way round");
	// The same from the copy's side.
	copy(a, LOW_AT, b, LOW_AT, 1);
	check(share(b, LOW_AT, c, LOW_AT, 1, READ_WRITE) == 0 && writes(&third, LOW_AT, 7), "a copy is shared and written");
	check(reads(&second, LOW_AT, 7) && reads(&first, LOW_AT, 5), "its source does not see it");
	// For reading only, a copy stays one.
	map(a, OTHER_AT, 1, RIGHT_READ);
	copy(a, OTHER_AT, b, OTHER_AT, 1);
	check(reads(&second, OTHER_AT, 0) && !writes(&second, OTHER_AT, 1), "a copy has no more rights than its source");
	// Fresh pages in place of all that.
	map(a, LOW_AT, 1, READ_WRITE);
	check(reads(&first, LOW_AT, 0) && reads(&third, OTHER_AT, 5), "a page in place of another");
	for (u32 i = 0; i < 3; i++) {
		u32 space = i == 0 ? a : i == 1 ? b : c;
		unmap(space, LOW_AT, 1);
		unmap(space, OTHER_AT, 1);
	}
}

static void devices(void)
{
	u32 a = first.space;
	check(map_device(a, LOW_AT, SP804) == 0, "a device");
	check(map_device(a, LOW_AT, PL011) == 0 && reads(&first, LOW_AT + 0xfe0, 0x11), "another in its place");
	check(share(a, LOW_AT, second.space, LOW_AT, 1, RIGHT_READ) == ERROR_INVALID, "a device is shared");
	check(copy(a, LOW_AT, second.space, LOW_AT, 1) == ERROR_INVALID, "a device is copied");
	check(map(a, LOW_AT, 1, READ_WRITE) == 0 && reads(&first, LOW_AT, 0), "a page in place of a device");
	check(map_device(a, LOW_AT, PL011) == 0, "a device in place of a page");
	check(unmap(a, LOW_AT, 1) == 0 && !reads(&first, LOW_AT, 0), "a device is unmapped");
	check(map_device(a, USER_LIMIT, PL011) == ERROR_INVALID, "a device at an address of the kernel");
	check(map_device(a, LOW_AT, MEMORY_END) == 0 && unmap(a, LOW_AT, 1) == 0, "the first address that is not memory");
	check(map_device(a, LOW_AT, MEMORY_END - PAGE_BYTES) == ERROR_INVALID, "the last page of memory as a device");
}

// A whole section at one address in three spaces, which may be one table: each of them changes it in another way.
#define SECTION 0x100000
static void sections(void)
{
	u32 a = first.space, b = second.space, c = third.space;
	if (map(a, FIXED_AT, SECTION / PAGE_BYTES, READ_WRITE) < 0)
		return; // guaranteed FCSE refuses
	writes(&first, FIXED_AT, 1);
	writes(&first, FIXED_AT + SECTION - PAGE_BYTES, 2);
	check(share(a, FIXED_AT, b, FIXED_AT, SECTION / PAGE_BYTES, READ_WRITE) == 0, "a section is shared");
	check(share(a, FIXED_AT, c, FIXED_AT, SECTION / PAGE_BYTES, READ_WRITE) == 0, "and with a third");
	check(reads(&second, FIXED_AT, 1) && reads(&third, FIXED_AT + SECTION - PAGE_BYTES, 2), "what it holds");
	check(writes(&third, FIXED_AT, 3) && reads(&first, FIXED_AT, 3) && reads(&second, FIXED_AT, 3), "what one of them writes");
	unmap(b, FIXED_AT, 1);
	free_frames();
	check(!reads(&second, FIXED_AT, 3) && reads(&third, FIXED_AT, 3), "a page that one of them has unmapped");
	check(writes(&second, FIXED_AT + PAGE_BYTES, 4) && reads(&first, FIXED_AT + PAGE_BYTES, 4), "the others are shared still");
	map(b, FIXED_AT, 1, READ_WRITE);
	check(writes(&second, FIXED_AT, 5) && reads(&first, FIXED_AT, 3), "its own page in that place");
	free_frames();
	check(copy(a, FIXED_AT, c, LOW_AT, 1) == 0 && reads(&third, LOW_AT, 3), "a copy out of the section");
	check(writes(&first, FIXED_AT, 6) && reads(&third, FIXED_AT, 6) && reads(&third, LOW_AT, 3), "is its own page");
	agent_start(&fourth, agent);
	check(share(c, FIXED_AT, fourth.space, FIXED_AT, SECTION / PAGE_BYTES, READ_WRITE) == 0, "a sharer gives it on");
	check(writes(&fourth, FIXED_AT, 7) && reads(&first, FIXED_AT, 7), "to a fourth");
	process_end(&fourth);
	free_frames();
	check(writes(&third, FIXED_AT, 8) && reads(&first, FIXED_AT, 8), "who ends");
	unmap(a, FIXED_AT, SECTION / PAGE_BYTES);
	check(reads(&third, FIXED_AT, 8) && !reads(&first, FIXED_AT, 8), "and then the first gives it up");
	free_frames();
	unmap(c, FIXED_AT, SECTION / PAGE_BYTES);
	unmap(c, LOW_AT, 1);
	unmap(b, FIXED_AT, SECTION / PAGE_BYTES);
}

// Three spaces with one PID under best effort FCSE; one that did not run last ends.
static void ended_neighbour(void)
{
	struct process *each[3] = { &first, &second, &third };
	u32 result;
	start_all();
	for (u32 i = 0; i < 3; i++) {
		map(each[i]->space, LOW_AT, 1, READ_WRITE);
		agent_ask(each[i], agent, MAP, FIXED_AT, 0, &result); // guaranteed FCSE refuses
		agent_ask(each[i], agent, UNMAP, FIXED_AT, 0, &result);
		writes(each[i], LOW_AT, 0);
	}
	writes(&third, LOW_AT, 7);
	process_end(&second);
	check(reads(&first, LOW_AT, 0), "another's lines after a third one's end");
	process_end(&first);
	check(reads(&third, LOW_AT, 7), "one's own lines after another's end");
	process_end(&third);
}

// A page at the beginning of each of the first slots, its own among them: where it lay before has to move.
static void own_slot(struct process *process)
{
	agent_start(process, agent);
	map(process->space, LOW_AT, 1, READ_WRITE);
	check(writes(process, LOW_AT, 99), "a page that will move");
	for (u32 slot = 12; slot; slot--) {
		bool mapped = map(process->space, slot << 25, 1, READ_WRITE) == 0; // guaranteed FCSE refuses
		check(writes(process, slot << 25, slot) == mapped, "a page in a slot");
	}
	check(reads(process, LOW_AT, 99), "the page that moved");
	u32 found = 0;
	for (u32 slot = 1; slot <= 12; slot++)
		found += reads(process, slot << 25, slot);
	check(found == 0 || found == 12, "what is in the slots");
}

// Two spaces with one PID share pages, as the 64th and the first of the processes here under FASS; then one of them
// moves to another slot, and the pages have two addresses.
static void moved_sharer(void)
{
	struct message m = { { 0 } };
	u32 count = 0;
	agent_start(&first, agent);
	while (count < MOST_PIDS + MOST_PIDS && process_start(&processes[count], agent, root_thread, PRIORITY, root_thread))
		count++;
	for (u32 i = 0; count >= MOST_PIDS && i < count; i++) {
		struct process *other = &processes[i];
		ipc_receive(other->thread, &m);
		check(map(other->space, LOW_AT, 2, READ_WRITE) == 0 && writes(other, LOW_AT, 1), "a page of one of many");
		if (i < 60 || i >= 64)
			continue; // those with other PIDs
		map(first.space, LOW_AT, 2, READ_WRITE);
		check(share(first.space, LOW_AT, other->space, LOW_AT, 2, READ_WRITE) == 0, "two pages are shared");
		check(writes(&first, LOW_AT, i) && writes(&first, LOW_AT + PAGE_BYTES, i), "and written");
		check(reads(other, LOW_AT, i) && reads(other, LOW_AT + PAGE_BYTES, i), "and read");
		for (u32 slot = 1; slot < 8; slot++)
			if (map(other->space, slot << 25, 1, READ_WRITE) < 0)
				break; // guaranteed FCSE refuses
		check(writes(&first, LOW_AT, i + 1) && writes(&first, LOW_AT + PAGE_BYTES, i + 1), "and written again");
		check(reads(other, LOW_AT, i + 1) && reads(other, LOW_AT + PAGE_BYTES, i + 1), "and read where they moved");
	}
	while (count)
		process_end(&processes[--count]);
	process_end(&first);
}

u32 calls(void)
{
	root_thread = self();
	map(0, STACKS_AT, 8, READ_WRITE);
	messages();
	faults();
	threads_and_time();
	u32 frames = 0;
	for (u32 round = 0; round < 3; round++) { // the first one leaves directories behind
		start_all();
		ranges();
		sharing();
		copies();
		devices();
		sections();
		end_all();
		check(round < 2 || free_frames() == frames, "frames are lost");
		frames = free_frames();
	}
	ended_neighbour();
	own_slot(&first);
	own_slot(&second);
	own_slot(&third);
	moved_sharer();
	print("calls: %u errors\n", errors);
	return errors;
}
