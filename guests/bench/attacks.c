// Attacks on the kernel's isolation, one for each hole that was ever found in it. `attack=` names one.
// The attacker is an unprivileged program, or a sequence of lawful calls of the first program after which
// somebody would see what is not theirs. Each returns how often it got through.
#include "bench.h"

#define SECRET 0x5ec2e700
#define LINE_WORDS 8
#define MOST_MAPPINGS 1024 // of one page
#define NEVER 0xffff0000 // no thread has this id

static u32 outcome(const char *what, u32 got_through)
{
	if (got_through)
		print("error: %s\n", what);
	return got_through;
}

// ---- a program that does as it is told ---------------------------------------------------------
enum command { READ, WRITE, FILL, ANY_NONZERO, SECTIONS, WRITE_FUNCTION, EXECUTE, CALL_NUMBER };

static u32 obey(struct message *order)
{
	const u32 *word = order->word;
	volatile u32 *at = (volatile u32 *)word[1];
	u32 value = word[2], result = 0;
	switch (word[0]) {
	case READ:
		result = *at;
		break;
	case WRITE:
		*at;
		*at = value;
		break;
	case FILL: // dirty lines: most cores fetch a line only to read it
		for (u32 i = 0; i < PAGE_BYTES / 4; i++) {
			at[i];
			at[i] = value;
		}
		break;
	case ANY_NONZERO:
		for (u32 i = 0; i < value / 4; i++)
			result |= at[i];
		break;
	case SECTIONS: // adds up the first words of N sections, one after the other
		for (u32 i = 0; i < value; i++)
			result += at[i * SECTION_BYTES / 4];
		break;
	case WRITE_FUNCTION: // that returns `value`, in each line of the page
		for (u32 i = 0; i < PAGE_BYTES / 4; i += LINE_WORDS) {
			at[i] = 0xe3a00000 | value; // mov r0, #value
			at[i + 1] = 0xe1a0f00e;     // mov pc, lr
		}
		synchronise((u32)at);
		break;
	case EXECUTE:
		result = ((u32(*)(void))at)();
		break;
	case CALL_NUMBER: // of the program's own space
		result = system_call(word[1], 0, word[2], word[3], word[4], word[5], 0);
		break;
	}
	return result;
}

static void agent(u32 root)
{
	agent_loop(root, obey);
}

static void start(struct process *process)
{
	agent_start(process, agent);
}

static bool ask(struct process *process, enum command command, u32 address, u32 value, u32 *result)
{
	return agent_ask(process, agent, command, address, value, result);
}

static void must(struct process *process, enum command command, u32 address, u32 value)
{
	u32 result;
	if (!ask(process, command, address, value, &result)) {
		print("error: the attack's own access to %x faults\n", address);
		machine_exit(3);
	}
}

static bool refused_above_32_mb(void) // guaranteed FCSE
{
	if (map(0, FIXED_AT, 1, READ_WRITE) < 0)
		return true;
	unmap(0, FIXED_AT, 1);
	return false;
}

// ---- threads -----------------------------------------------------------------------------------
static void waits_for_itself(u32 root)
{
	struct message m = { { 0 } };
	ipc_call(root, &m);
	ipc(0, self(), &m);
	for (;;) { // in its own space, or in somebody else's
		*(volatile u32 *)LOW_AT = SECRET;
		ipc_receive(NEVER, &m);
		ipc_receive(root, &m);
	}
}

// A thread that waits for itself is destroyed; does it go on in the space that gets its space's record?
static u32 orphan(void)
{
	struct process *before = &processes[0], *after = &processes[1];
	struct message m = { { 0 } };
	u32 result;
	start_or_stop(0, waits_for_itself, self(), PRIORITY);
	map(before->space, LOW_AT, 1, READ_WRITE);
	ipc_receive(before->thread, &m);
	ipc_send(before->thread, &m);
	yield();
	process_end(before);
	start(after);
	map(after->space, LOW_AT, 1, READ_WRITE);
	sleep_until(clock_microseconds() + 20000);
	return outcome("a destroyed thread wrote into another space",
		       ask(after, READ, LOW_AT, 0, &result) && result == SECRET);
}

static void spin(u32 unused)
{
	(void)unused;
	for (;;)
		;
}

// A child makes a thread that nobody can interrupt. Nothing comes back if it succeeds.
static u32 priority(void)
{
	extern char stack_top[];
	struct message m = { { CALL_NUMBER, CALL_THREAD_CREATE, (u32)spin, (u32)stack_top, 0, 63 } };
	start(&processes[0]);
	ipc_call(processes[0].thread, &m);
	return outcome("a thread above its creator's priority", !is_error(m.word[1]));
}

static void busy(u32 pages)
{
	for (;;) {
		map(0, 0x00800000, pages, READ_WRITE);
		copy(0, 0x00800000, 0, 0x01000000, pages);
		unmap(0, 0x01000000, pages);
		share(0, 0x00800000, 0, 0x01000000, pages, READ_WRITE);
		unmap(0, 0x01000000, pages);
		unmap(0, 0x00800000, pages);
		unmap(0, 0, 0xbe000); // all of user space, this code too
	}
}

// A cold switch, flushing included, takes a quarter of a millisecond.
#define LATE_MICROSECONDS 400
static u32 most_late;

static void urgent(u32 root)
{
	struct message m = { { 0 } };
	ipc_call(root, &m);
	u32 time = clock_microseconds();
	for (u32 i = 0; i < 200; i++) {
		time += 1700;
		u32 woken = sleep_until(time);
		if (woken - time > most_late)
			most_late = woken - time;
		time = woken;
	}
	m.word[0] = most_late;
	ipc_call(root, &m);
}

// A child maps, copies, shares and unmaps hundreds of pages: how late does a thread of a better priority wake? QEMU's
// clock is the host's, so there it is not judged.
static u32 latency(void)
{
	struct message m = { { 0 } };
	start_or_stop(0, urgent, self(), PRIORITY + 8);
	ipc_receive(processes[0].thread, &m);
	start_or_stop(1, busy, 200, PRIORITY - 1); // so few that each call is made while the other thread measures
	ipc_call(processes[0].thread, &m);
	u32 late = m.word[0];
	if (ipc_receive(processes[1].thread, &m) != processes[1].thread || m.word[0] != FAULT_FETCH)
		return outcome("a space without pages runs on", true);
	if (!LAB[LAB_CLOCK_HZ])
		return 0;
	print("= attack latency_microseconds=%u\n", late);
	return outcome("interrupts wait for a long call", late > LATE_MICROSECONDS);
}

static void mapper(u32 root)
{
	struct message m = { { 0 } };
	ipc_call(root, &m);
	for (;;)
		ipc_receive(ANY, &m);
}

static u32 dying; // the space that the root destroys
static u32 let_in;

// Maps pages into a space that is being destroyed, whenever the call that destroys it lets others run.
static void meddler(u32 argument)
{
	(void)argument;
	for (;;) {
		sleep_until(clock_microseconds() + 500);
		let_in += dying && map(dying, LOW_AT, 1, READ_WRITE) != ERROR_INVALID;
	}
}

// The same with the destruction of a space that has thousands of pages and a hundred threads, and of spaces that have
// nothing, whose directories are searched all the same.
static u32 destruction(void)
{
	struct message m = { { 0 } };
	start_or_stop(0, urgent, self(), PRIORITY + 8);
	ipc_receive(processes[0].thread, &m);
	start_or_stop(1, mapper, self(), PRIORITY);
	ipc_receive(processes[1].thread, &m);
	map(processes[1].space, 0x00800000, 4000, READ_WRITE);
	for (u32 i = 0; i < 100; i++)
		thread_create(processes[1].space, (u32)mapper, 0x00800000 + PAGE_BYTES * (i + 1), NEVER, PRIORITY, self());
	map(0, 0x00800000, 1, READ_WRITE);
	thread_create(0, (u32)meddler, 0x00800000 + PAGE_BYTES, 0, PRIORITY + 4, self());
	ipc_send(processes[0].thread, &m);
	dying = processes[1].space;
	space_destroy(dying);
	for (u32 i = 0; i < 100; i++)
		space_destroy(space_create());
	ipc_receive(processes[0].thread, &m);
	if (outcome("pages are mapped in a space that is being destroyed", let_in) || !LAB[LAB_CLOCK_HZ])
		return let_in;
	print("= attack latency_microseconds=%u\n", m.word[0]);
	return outcome("interrupts wait for a space's end", m.word[0] > LATE_MICROSECONDS);
}

// ---- messages ----------------------------------------------------------------------------------
#define NAKED __attribute__((naked, noinline))
#define LOST 6 // r1, r2, r3, r10, r11, r12

// ipc(to, from), whose message registers hold what they hold; then r1-r3 and r10-r12, which the call may
// change, are stored. Its result is in r0.
NAKED static u32 ipc_and_look(u32 to, u32 from, u32 *lost)
{
	(void)to, (void)from, (void)lost;
	__asm__("stmfd sp!, {r2, r4-r11, lr}\n"
		"mov r2, #0\n mov r3, #0\n mov r10, #0\n mov r11, #0\n mov r12, #0\n"
		"swi 0\n"
		"ldr lr, [sp]\n"
		"stmia lr, {r1, r2, r3, r10, r11, r12}\n"
		"ldmfd sp!, {r2, r4-r11, pc}");
}

static u32 leaked[2]; // what a client and its server saw of others in registers

static u32 look(u32 to, u32 from, u32 *leaks)
{
	u32 lost[LOST] = { 0 };
	u32 sender = ipc_and_look(to, from, lost);
	for (u32 i = 0; i < LOST; i++)
		if (lost[i] && lost[i] != from && lost[i] != sender)
			*leaks |= 1u << i;
	return sender;
}

static void watched_server(u32 root)
{
	struct message m = { { 0 } };
	ipc_call(root, &m);
	u32 client = look(0, ANY, &leaked[0]);
	for (u32 i = 0; i < 8; i++)
		client = look(client, ANY, &leaked[0]);
	m.word[0] = leaked[0];
	ipc_call(root, &m);
}

static void watched_client(u32 server)
{
	for (;;)
		look(server, server, &leaked[1]);
}

// Do registers that a call may change hold the kernel's values, or the other's?
static u32 registers(void)
{
	struct message m = { { 0 } };
	start_or_stop(0, watched_server, self(), PRIORITY);
	u32 server = processes[0].thread;
	ipc_receive(server, &m);
	start_or_stop(1, watched_client, server, PRIORITY);
	start_or_stop(2, watched_client, server, PRIORITY);
	ipc_send(server, &m);
	ipc_receive(server, &m);
	u32 leaks = m.word[0];
	for (u32 call = CALL_YIELD; call < CALLS; call++) {
		if (call == CALL_SLEEP || call == CALL_EXIT || call == CALL_PRINT)
			continue;
		register u32 r0 __asm__("r0") = 0;
		register u32 r3 __asm__("r3") = 0;
		register u32 r12 __asm__("r12") = call;
		__asm__ volatile("swi 0" : "+r"(r0), "+r"(r3) : "r"(r12) : "r1", "r2", "memory", "cc");
		leaks |= r3 ? 1u << 16 : 0;
	}
	print("= attack leaks=%x\n", leaks);
	return outcome("registers hold the kernel's values or another program's", leaks != 0);
}

// A call from Thumb state. It returns r5 plus 1 if the call came back to Thumb state.
NAKED static u32 ipc_in_thumb(u32 to, u32 from)
{
	(void)to, (void)from;
	__asm__("stmfd sp!, {r4-r11, lr}\n"
		"mov r5, #40\n"
		"mov r12, #0\n"
		"adr r2, 1f + 1\n"
		".word 0xe12fff12\n" // bx r2
		".balign 4\n"
		"1: .hword 0x46c0\n" // nop: it continues where bit 1 of the pc is clear
		".hword 0xdf00\n"    // swi 0
		".hword 0x3501\n"    // add r5, #1
		".hword 0x46c0\n"
		".hword 0x4778\n"    // bx pc
		".hword 0x46c0\n"
		"mov r0, r5\n"
		"ldmfd sp!, {r4-r11, pc}");
}

static void thumb_client(u32 server)
{
	struct message m = { { 0 } };
	ipc_call(server, &m);
	for (u32 i = 0; i < 8; i++) {
		u32 got = ipc_in_thumb(server, server);
		m.word[0] = got;
		ipc_call(server, &m);
	}
	for (;;)
		ipc_receive(NEVER, &m);
}

// The first thread to call is served first; each message is answered with its own words.
static void arm_server(u32 root)
{
	struct message m = { { 0 } };
	u32 client = ipc_receive(ANY, &m), served = 0, wrong = 0;
	while (served < 16) {
		client = ipc_reply_and_wait(client, &m);
		if (served++ % 2)
			wrong += m.word[0] != 41;
	}
	m.word[0] = wrong;
	ipc_call(root, &m);
}

static void thumb_server(u32 root)
{
	struct message m = { { 0 } };
	ipc_call(root, &m);
	u32 wrong = 0;
	for (u32 i = 0; i < 8; i++)
		wrong += ipc_in_thumb(0, ANY) != 41 + i; // word 1 of the message
	m.word[0] = wrong;
	ipc_call(root, &m);
}

// Waits in Thumb state for a thread that is destroyed, then in ARM state for an answer in Thumb state.
static void thumb_waiter(u32 root)
{
	struct message m = { { 0 } };
	ipc_call(root, &m);
	m.word[0] = ipc_in_thumb(0, m.word[0]);
	ipc_call(root, &m);
	m.word[1]++;
	ipc_call(root, &m);
}

// Clients in Thumb state call a server in ARM state, and the other way round. ARMv4 has no Thumb state: there
// the first try is an undefined instruction.
static u32 thumb(void)
{
	struct message m = { { 0 } };
	start_or_stop(0, arm_server, self(), PRIORITY);
	start_or_stop(1, thumb_client, processes[0].thread, PRIORITY);
	u32 from = ipc_receive(ANY, &m);
	if (from == processes[1].thread && m.word[0] == FAULT_UNDEFINED)
		return 0;
	u32 wrong = from != processes[0].thread || m.word[0];
	start_or_stop(2, thumb_server, self(), PRIORITY);
	ipc_receive(processes[2].thread, &m);
	ipc_send(processes[2].thread, &m);
	for (u32 i = 0; i < 8; i++) {
		m.word[1] = 40 + i;
		ipc_send(processes[2].thread, &m);
	}
	from = ipc_receive(ANY, &m);
	wrong |= from != processes[2].thread || m.word[0];
	start_or_stop(3, thumb_waiter, self(), PRIORITY);
	ipc_receive(processes[3].thread, &m);
	m.word[0] = processes[1].thread;
	ipc_send(processes[3].thread, &m);
	yield();
	thread_destroy(processes[1].thread);
	ipc_receive(processes[3].thread, &m);
	wrong |= m.word[0] != 41;
	ipc_in_thumb(processes[3].thread, 0);
	from = ipc_receive(ANY, &m);
	wrong |= from != processes[3].thread || m.word[1] != 41;
	return outcome("a message between Thumb and ARM state goes wrong", wrong);
}

// ---- frames ------------------------------------------------------------------------------------
// Pages of `reader` that should be zero, before and after other lines have evicted what was cached.
static bool sees_something(struct process *reader, u32 pages)
{
	u32 seen = 0, result;
	for (u32 round = 0; round < 2; round++) {
		ask(reader, ANY_NONZERO, LOW_AT, pages * PAGE_BYTES, &result);
		seen |= result;
	}
	return seen;
}

// A destroyed space's dirty lines of a page that another still shares; the page is freed later.
static u32 shared_secret(void)
{
	struct process *victim = &processes[0], *sharer = &processes[1], *thief = &processes[2];
	u32 at = refused_above_32_mb() ? LOW_AT : FIXED_AT;
	u32 pages = 8, result;
	start(victim);
	start(sharer);
	start(thief);
	if (at == FIXED_AT) { // two that collide, which flushes: from now on the sharer has no lines
		map(thief->space, at + SECTION_BYTES, 1, READ_WRITE);
		map(victim->space, at + SECTION_BYTES, 1, READ_WRITE);
		must(thief, WRITE, at + SECTION_BYTES, 1);
		must(victim, WRITE, at + SECTION_BYTES, 1);
	}
	map(victim->space, at, pages, READ_WRITE);
	share(victim->space, at, sharer->space, at, pages, READ_WRITE);
	for (u32 i = 0; i < pages; i++)
		must(victim, FILL, at + i * PAGE_BYTES, SECRET);
	process_end(victim);
	unmap(sharer->space, at, pages);
	map(thief->space, LOW_AT, 3 * pages, READ_WRITE);
	ask(thief, ANY_NONZERO, LOW_AT, 3 * pages * PAGE_BYTES, &result);
	return outcome("a destroyed space's secret in a fresh page", sees_something(thief, 3 * pages));
}

// A page has more mappings than its counter can count, and is freed while it has some.
static u32 many_mappings(void)
{
	struct process *victim = &processes[0];
	u32 at = 0x00200000, pages = 16, result, mapped = 0;
	map(0, LOW_AT, 1, READ_WRITE);
	*(volatile u32 *)LOW_AT = 1;
	u32 wanted = 65536 + 8;
	bool above = !refused_above_32_mb();
	for (u32 i = 0; i < wanted; i++) {
		u32 address = i < 7000 ? at + i * PAGE_BYTES : FIXED_AT + (i - 7000) * PAGE_BYTES;
		if (!above && i >= 7000)
			break;
		if (share(0, LOW_AT, 0, address, 1, RIGHT_READ) < 0)
			break;
		mapped++;
	}
	for (u32 i = 0; i < 16 && i < mapped; i++)
		unmap(0, at + i * PAGE_BYTES, 1);
	start(victim);
	map(victim->space, LOW_AT, pages, READ_WRITE);
	for (u32 i = 0; i < pages; i++)
		must(victim, FILL, LOW_AT + i * PAGE_BYTES, SECRET);
	result = *(volatile u32 *)(at + 100 * PAGE_BYTES);
	bool more = mapped != MOST_MAPPINGS - 1; // and the first one
	return outcome("a page is freed while it is mapped", result != 1) + outcome("a page has more mappings, or fewer", more);
}

// ---- sections that several spaces share --------------------------------------------------------
// A space has used a section by itself, shares it, then unmaps a page of it: is it gone?
static u32 unshared_slot(void)
{
	struct process *first = &processes[0], *second = &processes[1];
	u32 result, wrong = 0;
	if (refused_above_32_mb())
		return 0;
	start(first);
	start(second);
	map(first->space, FIXED_AT, 4, READ_WRITE);
	must(first, FILL, FIXED_AT, 7);
	share(first->space, FIXED_AT, second->space, FIXED_AT, SECTION_PAGES, READ_WRITE);
	unmap(first->space, FIXED_AT, 1);
	wrong += outcome("an unmapped page is readable", ask(first, READ, FIXED_AT, 0, &result));
	map(first->space, FIXED_AT, 1, READ_WRITE);
	must(first, FILL, FIXED_AT, 9);
	wrong += outcome("a private page is written through to another space",
			 !ask(second, READ, FIXED_AT, 0, &result) || result != 7);
	return wrong;
}

// The TLB holds a translation of the first sharer, with its own domain, when the second one comes.
static u32 shared_translation(void)
{
	struct process *first = &processes[0], *second = &processes[1], *third = &processes[2];
	u32 result, kept_out = 0;
	if (refused_above_32_mb())
		return 0;
	start(first);
	start(second);
	start(third);
	for (u32 clean = 0; clean < 2; clean++) {
		u32 at = FIXED_AT + 2 * clean * SECTION_BYTES, other = at + SECTION_BYTES;
		map(first->space, at, 1, READ_WRITE);
		must(first, FILL, at, 7);
		if (clean) { // a collision flushes all, and then somebody tries the page, which brings its translation
			map(second->space, other, 1, READ_WRITE);
			map(third->space, other, 1, READ_WRITE);
			must(second, FILL, other, 1);
			must(third, FILL, other, 1);
			ask(third, READ, at, 0, &result);
		}
		share(first->space, at, second->space, at, SECTION_PAGES, READ_WRITE);
		kept_out += !ask(second, READ, at, 0, &result) || result != 7;
	}
	return outcome("a sharer is kept out of what it shares", kept_out);
}

// What the hardware's directory held of a section comes back after the section was unshared and its table
// freed: the table's frame is now a page that the thief writes page-table entries into.
static u32 stale_section(void)
{
	struct process *first = &processes[0], *second = &processes[1], *thief = &processes[2];
	u32 result;
	if (refused_above_32_mb())
		return 0;
	start(thief);
	first->space = space_create();
	map(first->space, FIXED_AT, 1, READ_WRITE); // its first section
	share(0, 0x8000, first->space, 0x8000, 0xe8, RIGHT_READ);
	second->space = space_create();
	share(first->space, FIXED_AT, second->space, FIXED_AT, SECTION_PAGES, READ_WRITE);
	unmap(first->space, FIXED_AT, 1);
	space_destroy(second->space);
	map(thief->space, LOW_AT, 4, READ_WRITE);
	for (u32 i = 0; i < 4; i++)
		must(thief, FILL, LOW_AT + i * PAGE_BYTES, 0x00100ffe); // small page, all may write: the kernel's text
	for (u32 i = 8; i < 40; i++)
		start(&processes[i]); // also takes all domains, and writes those lines back
	for (u32 i = 8; i < 40; i++)
		process_end(&processes[i]);
	extern char data_start[], data_end[], stack_top[];
	copy(0, (u32)data_start, first->space, (u32)data_start, PAGES(data_end - data_start));
	map(first->space, (u32)stack_top - PAGE_BYTES, 1, READ_WRITE);
	first->thread = thread_create(first->space, (u32)agent, (u32)stack_top, self(), PRIORITY, self());
	struct message m;
	ipc_receive(first->thread, &m);
	return outcome("a program reads the kernel's text", ask(first, READ, FIXED_AT + 0x1000, 0, &result));
}

// A program uses a section by itself, shares it with one that has not run lately, and ends; that one unmaps it.
// Are lines left for whoever maps the same address next?
static u32 gone_sharer(void)
{
	struct process *first = &processes[0], *second = &processes[1], *next = &processes[2], *other = &processes[3];
	u32 result, wrong = 0;
	if (refused_above_32_mb())
		return 0;
	start(first);
	start(second);
	start(next);
	start(other);
	map(next->space, FIXED_AT + SECTION_BYTES, 1, READ_WRITE);
	map(other->space, FIXED_AT + SECTION_BYTES, 1, READ_WRITE);
	must(next, WRITE, FIXED_AT + SECTION_BYTES, 1);
	must(other, WRITE, FIXED_AT + SECTION_BYTES, 1); // a collision, which flushes
	map(first->space, FIXED_AT, 2, READ_WRITE);
	must(first, WRITE_FUNCTION, FIXED_AT, 55);
	must(first, WRITE, FIXED_AT + PAGE_BYTES, SECRET);
	must(first, EXECUTE, FIXED_AT, 0);
	share(first->space, FIXED_AT, second->space, FIXED_AT, SECTION_PAGES, READ_WRITE);
	process_end(first);
	unmap(second->space, FIXED_AT, 2);
	map(next->space, FIXED_AT, 2, READ_WRITE);
	wrong += outcome("a fresh page runs another's code", ask(next, EXECUTE, FIXED_AT, 0, &result));
	wrong += outcome("a fresh page shows a secret", !ask(next, READ, FIXED_AT + PAGE_BYTES, 0, &result) || result);
	return wrong;
}

// More shared sections than there are domains, touched in a row by both sharers.
static u32 many_sections(void)
{
	struct process *first = &processes[0], *second = &processes[1];
	u32 count = option_number("sections", 40), result, wrong = 0;
	if (refused_above_32_mb())
		return 0;
	start(first);
	start(second);
	for (u32 i = 0; i < count; i++) {
		u32 at = FIXED_AT + i * SECTION_BYTES;
		map(first->space, at, 1, READ_WRITE);
		share(first->space, at, second->space, at, SECTION_PAGES, READ_WRITE);
	}
	for (u32 round = 0; round < 3; round++) {
		u32 sum = 0;
		for (u32 i = 0; i < count; i++) {
			must(first, WRITE, FIXED_AT + i * SECTION_BYTES, i + round);
			sum += i + round;
		}
		wrong += !ask(first, SECTIONS, FIXED_AT, count, &result) || result != sum;
		wrong += !ask(second, SECTIONS, FIXED_AT, count, &result) || result != sum;
	}
	return outcome("shared sections differ", wrong);
}

// Between two pages of a space's end, another thread lets the last other sharer of one of its sections write
// there, and ends that one too. Are those lines forgotten?
static void intruder(u32 root)
{
	struct process *ending = &processes[0], *sharer = &processes[1];
	struct message m = { { 0 } };
	start(ending);
	start(sharer);
	map(ending->space, LOW_AT, 1, READ_WRITE);
	for (u32 i = 0; i < 300; i++) // its end takes long before it comes to the section, and evicts few lines
		share(ending->space, LOW_AT, ending->space, 0x00200000 + i * PAGE_BYTES, 1, RIGHT_READ);
	map(ending->space, FIXED_AT, 1, READ_WRITE);
	share(ending->space, FIXED_AT, sharer->space, FIXED_AT, SECTION_PAGES, READ_WRITE);
	for (u32 i = 8; i < 40; i++)
		start(&processes[i]); // take all domains: neither has lines now
	ipc_send(root, &m);
	sleep_until(clock_microseconds() + 500);
	must(sharer, FILL, FIXED_AT, SECRET);
	process_end(sharer);
	ipc_receive(NEVER, &m);
}

static u32 interrupted_end(void)
{
	struct process *thief = &processes[2];
	struct message m;
	u32 stack = 0x00700000, pages = 24, result;
	if (refused_above_32_mb())
		return 0;
	start(thief);
	map(0, stack, 1, READ_WRITE);
	ipc_receive(thread_create(0, (u32)intruder, stack + PAGE_BYTES, self(), PRIORITY + 8, self()), &m);
	process_end(&processes[0]);
	map(thief->space, LOW_AT, pages, READ_WRITE);
	ask(thief, ANY_NONZERO, LOW_AT, pages * PAGE_BYTES, &result);
	return outcome("lines of a section that two ending spaces shared in a fresh page", sees_something(thief, pages));
}

static const struct {
	const char *name;
	program *run;
} attacks_by_name[] = {
	{ "orphan", orphan },
	{ "priority", priority },
	{ "latency", latency },
	{ "destruction", destruction },
	{ "registers", registers },
	{ "thumb", thumb },
	{ "shared_secret", shared_secret },
	{ "many_mappings", many_mappings },
	{ "unshared_slot", unshared_slot },
	{ "stale_section", stale_section },
	{ "shared_translation", shared_translation },
	{ "gone_sharer", gone_sharer },
	{ "many_sections", many_sections },
	{ "interrupted_end", interrupted_end },
	{ "regrown", regrown },
	{ "many_tables", many_tables },
	{ "interrupted_share", interrupted_share },
	{ "thumb_calls", thumb_calls },
	{ "move_latency", move_latency },
	{ "sleep_trap", sleep_trap },
	{ "slices", slices },
	{ 0, 0 },
};

u32 attack(void)
{
	for (u32 i = 0; attacks_by_name[i].name; i++)
		if (option("attack", attacks_by_name[i].name)) {
			u32 through = attacks_by_name[i].run();
			print("attack %s: got through %u times\n", attacks_by_name[i].name, through);
			return through;
		}
	print("give attack=");
	for (u32 i = 0; attacks_by_name[i].name; i++)
		print("%s%s", i ? "|" : "", attacks_by_name[i].name);
	print("\n");
	return 1;
}
