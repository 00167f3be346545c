// What each system call returns and does, right and wrong arguments alike, checked one by one. Everything lies
// below 32 MB but where it is said, so that all schemes do the same.
#include "calls.h"

#define STACKS_AT 0x00700000 // of threads in the root's own space
#define MOST_THREADS 512

static u32 errors;

void check(bool holds, const char *what)
{
	if (holds)
		return;
	errors++;
	print("error: %s\n", what);
}

static u32 obey(struct message *order)
{
	volatile u32 *at = (volatile u32 *)order->word[1], *alias = (volatile u32 *)order->word[2];
	u32 next;
	switch (order->word[0]) {
	case READ:
		return *at;
	case WRITE: // a dirty line: most cores fetch a line only to read it
		*at;
		*at = order->word[2];
		return 0;
	case WRITE_ALIAS: // with no switch in between, which might flush
		next = *alias + 1;
		*at;
		*at = next;
		return *alias == next;
	case MAP:
		return map(0, (u32)at, 1, READ_WRITE);
	default:
		return unmap(0, (u32)at, 1);
	}
}

void agent(u32 root)
{
	agent_loop(root, obey);
}

struct process first, second, third;

bool reads(struct process *process, u32 address, u32 value)
{
	u32 result;
	return agent_ask(process, agent, READ, address, 0, &result) && result == value;
}

bool writes(struct process *process, u32 address, u32 value)
{
	u32 result;
	return agent_ask(process, agent, WRITE, address, value, &result);
}

bool sees_alias(struct process *process, u32 written, u32 seen)
{
	u32 result;
	return agent_ask(process, agent, WRITE_ALIAS, written, seen, &result) && result;
}

void start_all(void)
{
	agent_start(&first, agent);
	agent_start(&second, agent);
	agent_start(&third, agent);
}

void end_all(void)
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

// Sends to the root, and then waits for one that waits to send to it, or that is gone.
static void sends_and_waits_for(u32 whom)
{
	struct message m = { { 'w' } };
	u32 from = ipc(root_thread, whom, &m);
	happened(from == (u32)ERROR_NO_THREAD ? 'n' : from == whom && m.word[0] == 'v' ? 'W' : '?');
	thread_destroy(self());
}

// Sends to the root with a number in a register that no message holds.
#define IN_R10 0x5e
__attribute__((naked)) static void sends_with_registers(u32 root)
{
	(void)root;
	__asm__ volatile("mov r10, %0\n\tmov r1, r0\n\tmov r12, %1\n1:\n\tswi 0\n\tb 1b" ::"i"(IN_R10), "i"(CALL_IPC));
}

static u32 r10_after_a_message(u32 from)
{
	register u32 r0 __asm__("r0") = 0;
	register u32 r1 __asm__("r1") = from;
	register u32 number __asm__("r12") = CALL_IPC;
	__asm__ volatile("swi 0\n\tmov r0, r10"
			 : "+r"(r0), "+r"(r1), "+r"(number)
			 :
			 : "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "cc", "memory");
	return r0;
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
	fresh_slice();
	thread_destroy(sent_to);
	check(ipc_receive(sent_to, &m) == (u32)ERROR_NO_THREAD, "its own message is gone");
	let_others_run();
	check(happened_exactly("dnng"), "a destroyed partner is told");
	fresh_slice();
	// One of those that wait to send is destroyed, and the list continues without it.
	a = thread(sender, 0, 'a', PRIORITY), b = thread(sender, 1, 'b', PRIORITY), c = thread(sender, 2, 'c', PRIORITY);
	let_others_run();
	thread_destroy(b);
	check(ipc_receive(ANY, &m) == a && ipc_receive(ANY, &m) == c, "the list without a destroyed sender");
	thread_destroy(a);
	thread_destroy(c);
	happened_exactly("abc");
	fresh_slice();
	// Whose message is taken takes one in its turn.
	b = thread(sends_elsewhere, 1, 'v', PRIORITY);
	sent_to = thread(sends_and_waits_for, 0, b, PRIORITY);
	let_others_run();
	check(ipc_receive(ANY, &m) == sent_to && m.word[0] == 'w', "the first of a chain");
	let_others_run();
	check(happened_exactly("W0"), "a chain of threads that wait to send");
	a = thread(sends_and_waits_for, 0, NOBODY, PRIORITY);
	let_others_run();
	check(ipc_receive(ANY, &m) == a, "a message of one that will wait for nobody");
	let_others_run();
	check(happened_exactly("n"), "who is told so");
	a = thread(sends_with_registers, 0, root_thread, PRIORITY);
	let_others_run();
	check(r10_after_a_message(a) != IN_R10, "a message has more words than six");
	thread_destroy(a);
	// Who waits for somebody takes no other's message.
	a = thread(echo, 0, root_thread, PRIORITY);
	sent_to = thread(waits_for, 1, a, PRIORITY);
	thread(sends_elsewhere, 2, 'e', PRIORITY);
	let_others_run();
	check(happened_exactly(""), "a message to one that waits for another");
	thread_destroy(a);
	let_others_run();
	check(happened_exactly("gn"), "both learn of the end of those that they waited for");
}

// ---- faults ------------------------------------------------------------------------------------
static void touches(u32 address)
{
	*(volatile u32 *)address = 1;
	happened('t');
	thread_destroy(self());
}

static void quick(u32 name)
{
	happened(name);
	thread_destroy(self());
}

// Faults that wait, as the pager does something else.
static void waiting_faults(void)
{
	struct message m = { { 0 } };
	u32 it = thread(touches, 0, OTHER_AT, PRIORITY);
	thread(quick, 1, 'w', PRIORITY - 1);
	sleep_until(clock_microseconds() + 20000);
	check(happened_exactly("w"), "a worse thread runs while a fault waits");
	check(ipc_receive(ANY, &m) == it && m.word[0] == FAULT_DATA && m.word[1] == OTHER_AT, "a fault that waited");
	map(0, OTHER_AT, 1, READ_WRITE);
	ipc_send(it, &m);
	let_others_run();
	check(happened_exactly("t"), "the reply to a fault that waited");
	unmap(0, OTHER_AT, 1);
	u32 pager = thread(sender, 1, 'p', PRIORITY);
	it = thread_create(0, (u32)touches, STACKS_AT + PAGE_BYTES, OTHER_AT, PRIORITY, pager);
	let_others_run();
	check(thread_destroy(pager) == 0, "a pager that is gone");
	let_others_run();
	check(thread_destroy(it) == 0, "a thread that waits for it still");
	happened_exactly("p");
	// Without a pager the kernel tells; where nothing is, so that the address is the same in each build.
	it = thread_create(0, OTHER_AT, STACKS_AT + PAGE_BYTES, 0, PRIORITY, NOBODY);
	let_others_run();
	check(thread_destroy(it) == 0, "a thread that has stopped");
}

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

static void twin(u32 name)
{
	sleep_until(wake_at);
	happened(name);
	thread_destroy(self());
}

// They sleep until times that follow each other by a microsecond.
static void early_riser(u32 later)
{
	u32 time = wake_at + later;
	happened(sleep_until(time) >= time ? '.' : '?');
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
	u32 *last = &ids[count / 2], earlier[4];
	for (u32 i = 0; i < 4; i++) {
		earlier[i] = *last;
		thread_destroy(*last);
		*last = thread(quick, 0, 'a', 0); // there is only that record
		check(!is_error(*last), "a thread in a destroyed one's place");
		for (u32 j = 0; j <= i; j++)
			check(*last != earlier[j], "a destroyed thread's id is another's");
	}
	thread_destroy(*last);
	u32 gone = thread(registers_fill, 1, 0, PRIORITY);
	let_others_run();
	thread_destroy(gone);
	thread(registers_store, 0, 0, PRIORITY);
	let_others_run();
	for (u32 i = 0; i < 12; i++)
		check(!first_registers[i], "a register of a new thread");
	*last = thread(quick, 0, 'a', 0);
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
	sleep_until(clock_microseconds() + 20000); // the checks of invariants take long
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
	wake_at = clock_microseconds() + 10000;
	for (u32 i = 0; i < 3; i++)
		thread(twin, i, 'a' + i, PRIORITY + 1);
	thread(quick, 3, 'z', 0);
	sleep_until(wake_at + 30000); // so late that nothing ends a turn
	check(happened_exactly("zabc"), "a thread of the last priority runs while all sleep, and twins wake in their order");
	wake_at = clock_microseconds() + 10000;
	for (u32 i = 0; i < 7; i++)
		thread(early_riser, i, i, PRIORITY + 1);
	sleep_until(wake_at + 1000);
	check(happened_exactly("......."), "nobody wakes before the time");
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
	// But not before better ones that are ready.
	fresh_slice();
	late = thread(waiting, 0, 'l', PRIORITY - 10);
	sleep_until(clock_microseconds() + 1000);
	thread(quick, 1, 'b', PRIORITY - 1);
	ipc(late, late, &m);
	check(happened_exactly("bl"), "the receiver of a message runs after its betters");
	check(thread_create(0, 0x8000, 0, 0, 64, 0) == (u32)ERROR_INVALID, "a priority that is none");
	check(thread_create(NOBODY, 0x8000, 0, 0, 1, 0) == (u32)ERROR_INVALID, "a thread in no space");
}

u32 calls(void)
{
	root_thread = self();
	map(0, STACKS_AT, 8, READ_WRITE);
	messages();
	waiting_faults();
	faults();
	threads_and_time();
	permissions_of_calls(root_thread);
	memory_calls(root_thread);
	work_of_calls();
	print("calls: %u errors\n", errors);
	return errors;
}
