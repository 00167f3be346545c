// Random system calls from programs in every state, while the first program creates, connects and destroys
// their spaces under them. Each space belongs to a group; pages are only shared and copied within a group.
// A word of a page says which group wrote it, so a program that reads anything but zero or its own group's
// words has seen what it must not. Run with the checked kernel, whose invariants are looked at after each
// call. `calls=` is how many, `thumb=1` makes calls in Thumb state too (ARMv5 only).
#include "bench.h"

#define SPACES 22
#define GROUPS 4
#define THREAD_LIST 24
#define PAGERS 3
#define OWN_BASE 0x90000000
#define SECTIONS 20
#define HELPERS 12 // of a space, beside the thread that it begins with

#define WORD_MARK 0xf5a00000
#define GROUP_SHIFT 16

static u32 group, random_state, thumb, own_thread, fellow; // of each program; copied when it is started
static u32 spaces[SPACES], known_threads[THREAD_LIST], last_known;
static u32 helpers[SPACES];
static u32 created, destroyed;

static u32 below(u32 limit)
{
	return (random_next(&random_state) >> 16) * limit >> 16;
}

// ---- arguments ---------------------------------------------------------------------------------
// Pages that fuzzing programs map, share and read. In each section only the first few are used.
static u32 address(void)
{
	static const u32 bases[] = { 0x00200000, 0x00300000, 0x01f00000, 0x04000000, 0x06100000, 0x0a000000 };
	u32 page = below(6) * PAGE_BYTES;
	if (below(3))
		return OWN_BASE + below(SECTIONS) * SECTION_BYTES + page;
	return bases[below(sizeof bases / sizeof *bases)] + page;
}

static u32 odd_number(void)
{
	switch (below(6)) {
	case 0:
		return 0;
	case 1:
		return ANY;
	case 2:
		return below(100);
	case 3:
		return 0xbe000000 - below(8) * PAGE_BYTES;
	case 4:
		return 1u << below(32);
	default:
		return random_next(&random_state);
	}
}

static u32 some_pages(void)
{
	return below(20) ? 1 + below(3) : below(4) ? SECTION_PAGES : 0xbe000;
}

static u32 some_thread(void)
{
	return below(8) ? known_threads[below(THREAD_LIST)] : odd_number();
}

// ---- the programs that fuzz --------------------------------------------------------------------
#define NAKED __attribute__((naked, noinline))

NAKED static u32 call_in_thumb(u32 number, const u32 *arguments)
{
	(void)number, (void)arguments;
	__asm__("stmfd sp!, {r4-r11, lr}\n"
		"mov r12, r0\n"
		"ldmia r1, {r0, r1, r2, r4, r5, r6}\n"
		"adr r3, 1f + 1\n"
		".word 0xe12fff13\n" // bx r3
		".balign 4\n"
		"1: .hword 0xdf00\n" // swi 0
		".hword 0x46c0\n"
		".hword 0x4778\n" // bx pc
		".hword 0x46c0\n"
		"ldmfd sp!, {r4-r11, pc}");
}

static void any_call(u32 number, const u32 *a)
{
	if (thumb && below(2))
		call_in_thumb(number, a);
	else if (number == CALL_IPC)
		ipc(a[0], a[1], (struct message *)known_threads);
	else
		system_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void random_call(u32 space)
{
	u32 number = below(16) ? below(CALLS) : odd_number();
	u32 a[6] = { space, address(), space, address(), some_pages(), below(4) };
	switch (number) {
	case CALL_IPC:
		a[0] = below(4) ? some_thread() : below(2) ? 0 : own_thread;
		a[1] = below(3) ? some_thread() : below(2) ? ANY : a[0];
		break;
	case CALL_MAP:
		a[2] = some_pages() % 32;
		a[3] = 1 + below(3);
		break;
	case CALL_UNMAP:
		a[2] = some_pages();
		break;
	case CALL_THREAD_CREATE:
		if (below(8))
			return;
		a[1] = below(4) ? fellow : address();
		a[2] = address() + PAGE_BYTES;
		a[4] = below(4) ? below(33) : odd_number();
		a[5] = some_thread();
		break;
	case CALL_THREAD_DESTROY:
		a[0] = below(4) ? some_thread() : own_thread;
		if (below(6))
			return;
		break;
	case CALL_SLEEP:
		a[0] = clock_microseconds() + below(3000);
		break;
	case CALL_SYNCHRONISE:
		a[0] = address();
		break;
	case CALL_PRINT:
	case CALL_DEVICE:
	case CALL_EXIT:
		return;
	}
	if (!below(24)) {
		u32 which = below(6);
		if (number != CALL_SLEEP && !(which == 1 && number <= CALL_COPY))
			a[which] = odd_number();
	}
	any_call(number, a);
}

static void look(volatile u32 *at)
{
	u32 word = *at;
	if (word && (word & ~0xffffu) != (WORD_MARK | group << GROUP_SHIFT))
		print("error: group %u sees %x at %x\n", group, word, (u32)at);
}

static void touch(void)
{
	volatile u32 *page = (volatile u32 *)address();
	u32 first = below(PAGE_BYTES / 4 - 16);
	if (below(2))
		for (u32 i = 0; i < 16; i++)
			look(&page[first + i]);
	else
		for (u32 i = 0; i < 16; i++)
			page[first + i] = WORD_MARK | group << GROUP_SHIFT | (first + i);
}

static void fuzzer(u32 seed)
{
	random_state = seed | 1;
	own_thread = self();
	for (;;) {
		random_call(0);
		if (below(3) == 0)
			touch();
	}
}

// A second thread of a space, often without a stack of its own: it uses none.
NAKED static void fellow_thread(void)
{
	__asm__("1: mov r12, #11\n" // sleep until the time that is in r0, which has passed
		"swi 0\n"
		"mov r0, #0\n"
		"mvn r1, #0\n"
		"mov r12, #0\n"
		"swi 0\n"
		"b 1b\n");
}

// ---- pagers ------------------------------------------------------------------------------------
static u32 pager_threads[PAGERS];
static u32 pager_stacks[PAGERS][256] __attribute__((aligned(8)));

static u32 space_of_thread[THREAD_LIST]; // index in spaces[]

// Maps the page that is missing, or does not; answers, which may never end, or destroys the thread.
static void pager(u32 seed)
{
	u32 state = seed | 1;
	struct message m = { { 0 } };
	u32 from = ipc_receive(ANY, &m);
	for (;;) {
		u32 choice = random_next(&state) >> 28, space = 0;
		for (u32 i = 0; i < THREAD_LIST; i++)
			if (known_threads[i] == from)
				space = spaces[space_of_thread[i]];
		bool may_map = m.word[0] >= FAULT_DATA && m.word[1] >= 0x00200000 && m.word[1] < 0xbe000000;
		if (space && may_map)
			map(space, m.word[1] & ~(PAGE_BYTES - 1), 1, choice & 1 ? READ_WRITE : RIGHT_READ);
		if (choice == 0)
			thread_destroy(from);
		from = choice < 12 ? ipc_reply_and_wait(from, &m) : ipc_receive(ANY, &m);
	}
}

static void pager_start(u32 i)
{
	if (pager_threads[i])
		thread_destroy(pager_threads[i]);
	pager_threads[i] = thread_create(0, (u32)pager, (u32)(pager_stacks[i] + 256), random_next(&random_state), PRIORITY + 1, 0);
}

// ---- the first program -------------------------------------------------------------------------
static void remember(u32 thread, u32 space)
{
	last_known = (last_known + 1) % THREAD_LIST;
	known_threads[last_known] = thread;
	space_of_thread[last_known] = space;
}

static void space_start(u32 i)
{
	struct process process;
	group = i % GROUPS;
	u32 priority = below(4) ? PRIORITY : PRIORITY - below(8);
	if (!process_start(&process, fuzzer, random_next(&random_state), priority, pager_threads[below(PAGERS)]))
		return;
	spaces[i] = process.space;
	helpers[i] = 0;
	remember(process.thread, i);
	created++;
}

static u32 some_space(u32 wanted_group)
{
	u32 i = below(SPACES);
	if (wanted_group < GROUPS)
		i = (i / GROUPS * GROUPS + wanted_group) % SPACES;
	return i % GROUPS == wanted_group || wanted_group >= GROUPS ? spaces[i] : 0;
}

static void connect(void)
{
	u32 g = below(GROUPS), from = some_space(g), to = some_space(g), at = address(), rights = 1 + below(3);
	if (!from || !to)
		return;
	switch (below(4)) {
	case 0:
		share(from, at, to, below(2) ? at : address(), some_pages() % 32, rights);
		break;
	case 1:
		copy(from, at, to, below(2) ? at : address(), some_pages() % 32);
		break;
	default:
		at = OWN_BASE + below(SECTIONS) * SECTION_BYTES;
		if (below(2))
			map(from, at, 1 + below(4), below(2) ? READ_WRITE : RIGHT_READ);
		share(from, at, to, at, SECTION_PAGES * (1 + below(3)), below(2) ? READ_WRITE : RIGHT_READ);
		break;
	}
}

// What the first program may do to any space is refused where there is none.
static void nobodys_call(void)
{
	static const u32 calls[] = { CALL_SPACE_DESTROY, CALL_MAP, CALL_SHARE, CALL_COPY, CALL_UNMAP, CALL_DEVICE, CALL_THREAD_CREATE };
	u32 space = (spaces[below(SPACES)] ^ 1u << below(32)) | 0x40000000, number = calls[below(sizeof calls / sizeof *calls)];
	if (!below(8))
		number = CALLS + odd_number() % 256;
	u32 result = system_call(number, space, odd_number(), space, odd_number(), odd_number(), odd_number());
	if (!is_error(result))
		print("error: call %u on no space gives %x\n", number, result);
}

static void operation(void)
{
	u32 i = below(SPACES);
	if (!spaces[i]) {
		space_start(i);
		return;
	}
	u32 what = below(100);
	if (what < 3) {
		space_destroy(spaces[i]);
		spaces[i] = 0;
		destroyed++;
	} else if (what < 30) {
		connect();
	} else if (what < 40) {
		map(spaces[i], address(), 1 + below(3), below(2) ? READ_WRITE : RIGHT_READ);
	} else if (what < 46) {
		unmap(spaces[i], address(), some_pages());
	} else if (what < 52) {
		// Each that fuzzes has a stack of its own.
		extern char stack_top[];
		bool fuzzes = below(3) && helpers[i] < HELPERS;
		helpers[i] += fuzzes;
		u32 thread = thread_create(spaces[i], (u32)(fuzzes ? fuzzer : (void (*)(u32))fellow_thread), (u32)stack_top - 1024 * helpers[i],
					   random_next(&random_state), 20 + below(13), pager_threads[below(PAGERS)]);
		if (!is_error(thread))
			remember(thread, i);
	} else if (what < 58) {
		u32 victim = below(THREAD_LIST);
		if (known_threads[victim])
			thread_destroy(known_threads[victim]);
	} else if (what < 60) {
		pager_start(below(PAGERS));
	} else if (what < 64) {
		nobodys_call();
	} else {
		sleep_until(clock_microseconds() + 50 + below(400));
	}
}

u32 fuzz(void)
{
	u32 calls = option_number("calls", 20000), errors = 0;
	u32 seed = option_number("seed", 1) * 2654435761u | 1;
	u32 free = free_frames();
	random_state = seed;
	thumb = option_number("thumb", 0);
	fellow = (u32)fellow_thread;
	own_thread = self();
	for (u32 i = 0; i < PAGERS; i++)
		pager_start(i);
	while (counter(COUNT_CALLS) < calls)
		operation();
	for (u32 i = 0; i < SPACES; i++)
		if (spaces[i])
			space_destroy(spaces[i]);
	for (u32 i = 0; i < PAGERS; i++)
		thread_destroy(pager_threads[i]);
	if (free_frames() != free) {
		print("error: %u frames are lost\n", free - free_frames());
		errors++;
	}
	print("fuzz: done, %u errors\n", errors);
	print("= fuzz calls=%u spaces=%u destroyed=%u", counter(COUNT_CALLS), created, destroyed);
	counters_print();
	return errors;
}
