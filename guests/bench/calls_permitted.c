// What a program that is not the first may ask of the kernel: nothing for another's space or threads, and nothing
// of what lies behind an array's end.
#include "calls.h"

#define MINE 0 // the caller's own space
#define MORE_AT (OTHER_AT + SECTION_BYTES)
#define LONGEST_COMMAND_LINE 256

static struct process child;

static u32 call_as_told(struct message *order)
{
	const u32 *word = order->word;
	return system_call(word[0], word[1], word[2], word[3], word[4], word[5], READ_WRITE);
}

static void caller(u32 root)
{
	agent_loop(root, call_as_told);
}

static u32 asks(enum call call, u32 r0, u32 r1, u32 r2, u32 r4, u32 r5)
{
	struct message m = { { call, r0, r1, r2, r4, r5 } };
	ipc_call(child.thread, &m);
	return m.word[1];
}

static bool refused(enum call call, u32 r0, u32 r1, u32 r2, u32 r4, u32 r5)
{
	return asks(call, r0, r1, r2, r4, r5) == (u32)ERROR_REFUSED;
}

static void others_memory(u32 other)
{
	check(refused(CALL_MAP, other, OTHER_AT, 1, READ_WRITE, 0), "a page is mapped in another's space");
	check(refused(CALL_UNMAP, other, LOW_AT, 1, 0, 0), "another's page is unmapped");
	check(refused(CALL_SHARE, other, LOW_AT, MINE, MORE_AT, 1), "another's page is shared");
	check(refused(CALL_SHARE, MINE, LOW_AT, other, LOW_AT, 1), "a page is shared into another's space");
	check(refused(CALL_SHARE, other, LOW_AT, other, OTHER_AT, 1), "another's page is shared with itself");
	check(refused(CALL_COPY, other, LOW_AT, MINE, MORE_AT, 1), "another's page is copied");
	check(refused(CALL_COPY, MINE, LOW_AT, other, LOW_AT, 1), "a page is copied into another's space");
	check(refused(CALL_COPY, other, LOW_AT, other, OTHER_AT, 1), "another's page is copied to itself");
	check(reads(&first, LOW_AT, 7) && !reads(&first, OTHER_AT, 7), "what another has is as it was");
}

static void what_is_the_first_programs(u32 other)
{
	check(refused(CALL_SPACE_CREATE, 0, 0, 0, 0, 0), "a program makes a space");
	check(refused(CALL_SPACE_DESTROY, other, 0, 0, 0, 0), "a program destroys another's space");
	check(refused(CALL_SPACE_DESTROY, MINE, 0, 0, 0, 0), "a program destroys its own space");
	check(refused(CALL_DEVICE, MINE, OTHER_AT, 0x101f1000, 0, 0), "a program gets a device");
	check(refused(CALL_DEVICE, other, OTHER_AT, 0x101f1000, 0, 0), "a program gives another a device");
	check(refused(CALL_EXIT, 0, 0, 0, 0, 0), "a program ends the machine");
}

static void others_threads(u32 other, u32 root_thread)
{
	u32 pc = (u32)caller, sp = LOW_AT + PAGE_BYTES;
	check(refused(CALL_THREAD_CREATE, other, pc, sp, 0, PRIORITY), "a thread in another's space");
	check(refused(CALL_THREAD_CREATE, MINE, pc, sp, 0, PRIORITY + 1), "a thread that is better than its maker");
	check(refused(CALL_THREAD_DESTROY, first.thread, 0, 0, 0, 0), "another's thread is destroyed");
	check(refused(CALL_THREAD_DESTROY, root_thread, 0, 0, 0, 0), "the first program's thread is destroyed");
	check(reads(&first, LOW_AT, 7), "another's thread goes on");
	for (u32 priority = PRIORITY - 1; priority <= PRIORITY; priority++) {
		u32 own = asks(CALL_THREAD_CREATE, MINE, pc, sp, NOBODY, priority);
		check(!is_error(own) && asks(CALL_THREAD_DESTROY, own, 0, 0, 0, 0) == 0, "a thread of its own");
	}
}

static void its_own_memory(void)
{
	check(asks(CALL_SHARE, MINE, LOW_AT, MINE, OTHER_AT, 1) == 0, "a program shares its own page with itself");
	check(asks(CALL_COPY, MINE, LOW_AT, MINE, MORE_AT, 1) == 0, "and copies it");
	check(asks(CALL_UNMAP, MINE, OTHER_AT, 1, 0, 0) == 0, "and unmaps it");
}

static void behind_the_end(void)
{
	u32 found = 0;
	for (u32 i = 0; i < 256; i++) // closest together where they are near
		found |= asks(CALL_OPTION, LONGEST_COMMAND_LINE + i * i, 0, 0, 0, 0) | asks(CALL_OPTION, -1 - i * i, 0, 0, 0, 0);
	check(!found, "a byte of the kernel is read as one of the command line");
}

void permissions_of_calls(u32 root_thread)
{
	agent_start(&first, agent);
	agent_start(&child, caller);
	map(first.space, LOW_AT, 1, READ_WRITE);
	writes(&first, LOW_AT, 7);
	check(asks(CALL_MAP, MINE, LOW_AT, 1, READ_WRITE, 0) == 0, "a program maps a page of its own");
	others_memory(first.space);
	what_is_the_first_programs(first.space);
	others_threads(first.space, root_thread);
	its_own_memory();
	behind_the_end();
	process_end(&child);
	process_end(&first);
}
