// The StrongARM paper's main case of TLB sharing (section 3.2): processes that execute the same read-only text
// at the same address above 32 MB, a function in each page of it, and yield. Under fass_shared the section is
// one table, one domain and one TLB entry for each page; under the other schemes each process has its own.
// After the measured laps, attempts to change the text for others.
#include "bench.h"

#define LIBRARY_AT 0x80000000
#define MAX_PAGES 64
#define OTHER_RESULT 77 // of no page

enum command { VISIT, WRITE };

static u32 pages, laps;

static void write_function(u32 at, u32 result)
{
	volatile u32 *word = (volatile u32 *)at;
	word[0] = 0xe3a00000 | result; // mov r0, #result
	word[1] = 0xe1a0f00e;          // mov pc, lr
	synchronise(at);
}

// How many of the functions do not return their page's number.
static u32 visit(void)
{
	u32 wrong = 0;
	for (u32 i = 0; i < pages; i++)
		wrong += ((u32(*)(void))(LIBRARY_AT + i * PAGE_BYTES))() != i;
	return wrong;
}

static void child(u32 parent)
{
	struct message m = { { 0 } };
	u32 wrong = 0;
	ipc_call(parent, &m); // the library may not be there yet
	// Warm laps, then a pause until the parent starts the clock.
	for (u32 lap = 0; lap < 3; lap++) {
		wrong += visit();
		yield();
	}
	ipc_call(parent, &m);
	for (u32 lap = laps; lap; lap--) {
		wrong += visit();
		yield();
	}
	for (;;) {
		m.word[0] = wrong;
		ipc_call(parent, &m);
		if (m.word[0] == WRITE)
			write_function(LIBRARY_AT, OTHER_RESULT);
		wrong = visit();
	}
}

// A space without threads gets the text read-only, and nobody keeps it for writing. 0: refused.
static u32 library_create(void)
{
	if (map(0, LIBRARY_AT, pages, READ_WRITE) < 0)
		return 0;
	for (u32 i = 0; i < pages; i++)
		write_function(LIBRARY_AT + i * PAGE_BYTES, i);
	u32 space = space_create();
	bool shared = share(0, LIBRARY_AT, space, LIBRARY_AT, pages, RIGHT_READ) == 0;
	unmap(0, LIBRARY_AT, pages);
	return shared ? space : 0;
}

// What a process answers: the number of functions that are wrong, or a fault.
static u32 ask(u32 process, enum command command)
{
	struct message m = { { command } };
	ipc_call(processes[process].thread, &m);
	return m.word[0];
}

static u32 changed_for_others(u32 n, u32 library)
{
	u32 errors = ask(0, WRITE) != FAULT_DATA;
	unmap(processes[1].space, LIBRARY_AT, 1);
	map(processes[1].space, LIBRARY_AT, 1, READ_WRITE);
	errors += ask(1, WRITE) != 1; // its own page now
	unmap(processes[2].space, LIBRARY_AT + (pages - 1) * PAGE_BYTES, 1);
	errors += ask(2, VISIT) != FAULT_FETCH;
	for (u32 round = 0; round < 2; round++) {
		for (u32 i = 3; i < n; i++)
			errors += ask(i, VISIT) != 0;
		for (u32 i = 0; i < 3 && round == 0; i++)
			process_end(&processes[i]);
		space_destroy(library);
	}
	return errors;
}

u32 library(void)
{
	u32 n = option_number("processes", 4), errors = 0;
	pages = option_number("pages", 16);
	laps = option_number("laps", 200);
	if (pages > MAX_PAGES)
		pages = MAX_PAGES;
	if (n < 4)
		n = 4;
	u32 text = library_create();
	if (!text) {
		print("library: refused\n= refused address=%u\n", LIBRARY_AT);
		return 3;
	}
	struct message m = { { 0 } };
	for (u32 i = 0; i < n; i++) {
		start_or_stop(i, child, self(), PRIORITY);
		errors += share(text, LIBRARY_AT, processes[i].space, LIBRARY_AT, SECTION_PAGES, RIGHT_READ) != 0;
	}
	for (u32 i = 0; i < n; i++)
		ipc_receive(ANY, &m);
	struct lap lap;
	for (u32 round = 0; round < 2; round++) {
		if (round == 1)
			lap_start(&lap);
		for (u32 i = 0; i < n; i++)
			ipc_send(processes[i].thread, &m);
		for (u32 i = 0; i < n; i++) {
			ipc_receive(ANY, &m);
			errors += m.word[0];
		}
	}
	lap_end(&lap);
	errors += changed_for_others(n, text);
	print("library: %u processes, %u pages, %u errors\n", n, pages, errors);
	print("= library processes=%u pages=%u", n, pages);
	lap_print(&lap, laps * n);
	return errors;
}
