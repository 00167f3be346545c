// What calls on memory return and do: ranges, sharing, copies, devices, sections, code, and spaces that move. All
// below 32 MB but where it is said, so that all schemes do the same.
#include "calls.h"

#define FULL_AT 0xa0000000
#define FULL_PAGES 0x2000 // as many as memory has
#define SP804 0x101e2000
#define PL011 0x101f1000
#define MEMORY_END 0x02000000 // that the kernel knows of
#define MOST_PIDS 95 // that any core and scheme uses

static struct process fourth;

static void ranges(void)
{
	u32 space = first.space;
	check(map(space, LOW_AT + 4, 1, READ_WRITE) == ERROR_INVALID, "an address within a page");
	check(map(space, LOW_AT + 1, 1, READ_WRITE) == ERROR_INVALID, "an address within a word");
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
	check(map_device(space, LOW_AT, 0x101ff001) == ERROR_INVALID, "a device within a word");
	u32 gone = space_create();
	check(space_destroy(gone) == 0, "a space is destroyed");
	u32 next = space_create();
	check(next != gone && map(gone, LOW_AT, 1, READ_WRITE) == ERROR_INVALID, "a destroyed space's id is another's");
	space_destroy(next);
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
	check(writes(&first, LOW_AT + PAGE_BYTES - 4, 8) && copy(a, LOW_AT, c, OTHER_AT, 2) == 0, "a shared page is copied");
	check(reads(&third, OTHER_AT, 4) && reads(&third, OTHER_AT + PAGE_BYTES - 4, 8), "from its first word to its last");
	check(writes(&first, LOW_AT, 5) && writes(&third, OTHER_AT, 6), "the copy and the page");
	check(reads(&third, OTHER_AT, 6) && reads(&first, LOW_AT, 5) && reads(&third, LOW_AT, 5), "are two");
	if (copy(a, LOW_AT, c, USER_LIMIT - SECTION_BYTES, 1) == 0) // guaranteed FCSE refuses, and keeps no frame for it
		unmap(c, USER_LIMIT - SECTION_BYTES, 1);
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
	map(a, LOW_AT, 1, READ_WRITE); // in the frame that was freed last
	u32 frames = free_frames();
	check(copy(a, LOW_AT, b, LOW_AT, 1) == 0 && free_frames() == frames, "a copy of a page whose frame was shared once");
	// One that has a page at two addresses, neither of them first or last among the page's mappings.
	map(a, LOW_AT, 1, READ_WRITE);
	share(a, LOW_AT, b, LOW_AT, 1, READ_WRITE);
	share(a, LOW_AT, b, OTHER_AT, 1, READ_WRITE);
	share(a, LOW_AT, c, LOW_AT, 1, READ_WRITE);
	for (u32 i = 0; i < 2; i++) // the first writes may fault, and the kernel evict what is cached
		check(sees_alias(&second, LOW_AT, OTHER_AT) && sees_alias(&second, OTHER_AT, LOW_AT), "a page at two addresses");
	check(reads(&first, LOW_AT, 4) && reads(&third, LOW_AT, 4), "and what the others see of it");
	unmap(c, LOW_AT, 1);
	unmap(b, LOW_AT, 1);
	unmap(b, OTHER_AT, 1);
	unmap(a, LOW_AT, 1);
}

// A function that returns a number, written twice to the same place.
static void written_code(void)
{
	volatile u32 *code = (volatile u32 *)OTHER_AT;
	map(0, OTHER_AT, 1, READ_WRITE);
	for (u32 number = 1; number < 4; number++) {
		code[0]; // a dirty line: most cores fetch a line only to read it
		code[0] = 0xe3a00000 | number; // mov r0, #number
		code[1] = 0xe1a0f00e;          // mov pc, lr
		synchronise(OTHER_AT);
		check(((u32(*)(void))OTHER_AT)() == number, "code that was just written");
	}
	// Another page with other code in its place.
	code = (volatile u32 *)LOW_AT;
	map(0, LOW_AT, 1, READ_WRITE);
	code[0] = 0xe3a00000 | 9;
	code[1] = 0xe1a0f00e;
	synchronise(LOW_AT);
	unmap(0, OTHER_AT, 1);
	copy(0, LOW_AT, 0, OTHER_AT, 1);
	check(((u32(*)(void))OTHER_AT)() == 9, "code in the place of other code");
	unmap(0, LOW_AT, 1);
	unmap(0, OTHER_AT, 1);
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
	check(share(a, OTHER_AT, c, OTHER_AT + PAGE_BYTES, 1, RIGHT_READ) == 0, "a page for reading is shared for reading");
	u32 frames = free_frames();
	check(copy(a, OTHER_AT, b, OTHER_AT, 1) == 0 && free_frames() == frames, "and its copy takes no frame");
	unmap(c, OTHER_AT + PAGE_BYTES, 1);
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
	bool refused = map(a, USER_LIMIT - PAGE_BYTES, 1, READ_WRITE) < 0; // by guaranteed FCSE
	check(map_device(a, USER_LIMIT - PAGE_BYTES, PL011) == 0 || refused, "a device at the last address of a program");
	unmap(a, USER_LIMIT - PAGE_BYTES, 1);
	check(map_device(a, LOW_AT, MEMORY_END) == 0 && unmap(a, LOW_AT, 1) == 0, "the first address that is not memory");
	check(map_device(a, LOW_AT, MEMORY_END - PAGE_BYTES) == ERROR_INVALID, "the last page of memory as a device");
	// The end of a space whose lines may stay in the caches, as its frames do.
	agent_start(&fourth, agent);
	check(map_device(fourth.space, LOW_AT, PL011) == 0 && reads(&fourth, LOW_AT + 0xfe0, 0x11), "a device of one that ends");
	process_end(&fourth);
}

// A whole section at one address in three spaces, which may be one table: each of them changes it in another way.
#define RELOCATED_AT (16 * SECTION_BYTES)
#define HALVES_AT (FIXED_AT + 4 * SECTION_BYTES)
#define KINDS_AT (FIXED_AT + 8 * SECTION_BYTES)
#define PAIR_AT (FIXED_AT + 20 * SECTION_BYTES)
static void sections(void)
{
	u32 a = first.space, b = second.space, c = third.space;
	// Where each space has a slot of its own, the same address is not the same section.
	map(a, RELOCATED_AT, SECTION_PAGES, READ_WRITE);
	check(share(a, RELOCATED_AT, b, RELOCATED_AT, SECTION_PAGES, READ_WRITE) == 0, "a section below 32 MB is shared");
	check(writes(&first, RELOCATED_AT, 1) && reads(&second, RELOCATED_AT, 1), "and written, and read");
	check(writes(&second, RELOCATED_AT + SECTION_BYTES - PAGE_BYTES, 2) && reads(&first, RELOCATED_AT + SECTION_BYTES - PAGE_BYTES, 2),
	      "the other way round");
	unmap(a, RELOCATED_AT, SECTION_PAGES);
	unmap(b, RELOCATED_AT, SECTION_PAGES);
	if (map(a, FIXED_AT, SECTION_PAGES, READ_WRITE) < 0)
		return; // guaranteed FCSE refuses
	map(a, HALVES_AT, 2 * SECTION_PAGES, READ_WRITE);
	writes(&first, HALVES_AT, 1);
	writes(&first, HALVES_AT + SECTION_BYTES - PAGE_BYTES, 2);
	check(share(a, HALVES_AT + SECTION_BYTES / 2, b, HALVES_AT + SECTION_BYTES / 2, SECTION_PAGES, READ_WRITE) == 0,
	      "the halves of two sections are shared");
	check(!reads(&second, HALVES_AT, 1) && !reads(&second, HALVES_AT + SECTION_BYTES / 2 - PAGE_BYTES, 0), "and no more of the first");
	check(reads(&second, HALVES_AT + SECTION_BYTES - PAGE_BYTES, 2) && reads(&second, HALVES_AT + SECTION_BYTES, 0), "what is shared");
	check(!reads(&second, HALVES_AT + SECTION_BYTES + SECTION_BYTES / 2, 0), "and no more of the second");
	unmap(a, HALVES_AT, 2 * SECTION_PAGES);
	unmap(b, HALVES_AT, 2 * SECTION_PAGES);
	// All but the first page are for reading only.
	map(a, KINDS_AT, SECTION_PAGES, RIGHT_READ);
	map(a, KINDS_AT, 1, READ_WRITE);
	check(share(a, KINDS_AT, b, KINDS_AT, SECTION_PAGES, RIGHT_READ) == 0,
	      "a section with pages of two kinds is shared for reading");
	check(!writes(&second, KINDS_AT, 1) && reads(&second, KINDS_AT, 0), "and not for writing");
	// And the other way round: all but the last.
	map(a, KINDS_AT, SECTION_PAGES, RIGHT_READ);
	map(a, KINDS_AT + SECTION_BYTES - PAGE_BYTES, 1, READ_WRITE);
	unmap(b, KINDS_AT, SECTION_PAGES);
	agent_start(&fourth, agent);
	check(share(a, KINDS_AT, fourth.space, KINDS_AT, SECTION_PAGES, RIGHT_READ) == 0, "and one whose last page differs");
	check(!writes(&fourth, KINDS_AT + SECTION_BYTES - PAGE_BYTES, 1) && reads(&fourth, KINDS_AT, 0), "is not for writing either");
	process_end(&fourth);
	unmap(a, KINDS_AT, SECTION_PAGES);
	unmap(b, KINDS_AT, SECTION_PAGES);
	// Two sharers, of whom one puts a page of its own in the place of a shared one.
	map(a, PAIR_AT, SECTION_PAGES, READ_WRITE);
	writes(&first, PAIR_AT, 1);
	check(share(a, PAIR_AT, b, PAIR_AT, SECTION_PAGES, READ_WRITE) == 0, "a section of two");
	check(map(b, PAIR_AT, 1, READ_WRITE) == 0 && writes(&second, PAIR_AT, 2), "a page of one of two sharers");
	check(reads(&first, PAIR_AT, 1) && reads(&second, PAIR_AT, 2), "and the other keeps the shared one");
	check(writes(&first, PAIR_AT + PAGE_BYTES, 3) && reads(&second, PAIR_AT + PAGE_BYTES, 3), "the rest is both's");
	unmap(a, PAIR_AT, SECTION_PAGES);
	unmap(b, PAIR_AT, SECTION_PAGES);
	writes(&first, FIXED_AT, 1);
	writes(&first, FIXED_AT + SECTION_BYTES - PAGE_BYTES, 2);
	check(share(a, FIXED_AT, b, FIXED_AT, SECTION_PAGES, READ_WRITE) == 0, "a section is shared");
	u32 frames = free_frames();
	check(share(a, FIXED_AT, c, LOW_AT, 1, READ_WRITE) == 0 && free_frames() == frames, "one of its pages is shared");
	unmap(c, LOW_AT, 1);
	check(share(a, FIXED_AT, c, FIXED_AT, SECTION_PAGES, READ_WRITE) == 0, "and with a third");
	check(reads(&second, FIXED_AT, 1) && reads(&third, FIXED_AT + SECTION_BYTES - PAGE_BYTES, 2), "what it holds");
	check(writes(&third, FIXED_AT, 3) && reads(&first, FIXED_AT, 3) && reads(&second, FIXED_AT, 3), "what one of them writes");
	unmap(b, FIXED_AT, 1);
	free_frames();
	check(!reads(&second, FIXED_AT, 3) && reads(&third, FIXED_AT, 3), "a page that one of them has unmapped");
	check(writes(&second, FIXED_AT + PAGE_BYTES, 4) && reads(&first, FIXED_AT + PAGE_BYTES, 4), "the others are shared still");
	map(b, FIXED_AT, 1, READ_WRITE);
	check(writes(&second, FIXED_AT, 5) && reads(&first, FIXED_AT, 3), "its own page in that place");
	free_frames();
	u32 page = FIXED_AT + 3 * PAGE_BYTES; // which nobody has at another address, so that it is cached
	check(writes(&first, page, 4) && copy(a, page, c, LOW_AT, 1) == 0 && reads(&third, LOW_AT, 4),
	      "a copy out of the section has what was just written");
	check(writes(&first, page, 6) && reads(&second, page, 6) && reads(&third, page, 6), "what is written on is the sharers'");
	check(reads(&third, LOW_AT, 4), "and not the copy's");
	agent_start(&fourth, agent);
	check(share(c, FIXED_AT, fourth.space, FIXED_AT, SECTION_PAGES, READ_WRITE) == 0, "a sharer gives it on");
	check(writes(&fourth, FIXED_AT, 7) && reads(&first, FIXED_AT, 7), "to a fourth");
	process_end(&fourth);
	free_frames();
	check(writes(&third, FIXED_AT, 8) && reads(&first, FIXED_AT, 8), "who ends");
	unmap(a, FIXED_AT, SECTION_PAGES);
	check(reads(&third, FIXED_AT, 8) && !reads(&first, FIXED_AT, 8), "and then the first gives it up");
	free_frames();
	unmap(c, FIXED_AT, SECTION_PAGES);
	unmap(c, LOW_AT, 1);
	unmap(b, FIXED_AT, SECTION_PAGES);
}

void crowd(void)
{
	for (u32 i = 0; i < 16; i++) {
		agent_start(&processes[i], agent);
		map(processes[i].space, LOW_AT, 1, READ_WRITE);
		check(writes(&processes[i], LOW_AT, i), "a page of one of a crowd");
	}
	for (u32 i = 0; i < 16; i++)
		process_end(&processes[i]);
}

// Two pairs of spaces that share sections, the second pair one and the first one before and after: nobody sees the other
// pair's.
static void two_pairs(void)
{
	u32 pages = SECTION_PAGES, other = FIXED_AT + SECTION_BYTES, last = other + SECTION_BYTES;
	if (map(first.space, FIXED_AT, pages, READ_WRITE) < 0)
		return; // guaranteed FCSE refuses
	agent_start(&fourth, agent);
	map(first.space, last, pages, READ_WRITE);
	map(third.space, other, pages, READ_WRITE);
	check(share(first.space, FIXED_AT, second.space, FIXED_AT, pages, READ_WRITE) == 0, "a pair's section");
	check(share(third.space, other, fourth.space, other, pages, READ_WRITE) == 0, "the other pair's");
	check(share(first.space, last, second.space, last, pages, READ_WRITE) == 0, "the first pair's other one");
	for (u32 round = 1; round < 4; round++) {
		check(writes(&first, FIXED_AT, round) && reads(&second, FIXED_AT, round), "what a pair shares");
		check(writes(&second, last, round) && reads(&first, last, round), "and in its other section");
		check(writes(&third, other, 9) && reads(&fourth, other, 9), "what the other pair shares");
		check(!reads(&third, FIXED_AT, round) && !reads(&fourth, FIXED_AT, round), "another pair's section");
		check(!reads(&first, other, 9) && !reads(&second, other, 9), "the other way round");
		crowd();
	}
	unmap(first.space, FIXED_AT, pages);
	unmap(second.space, FIXED_AT, pages);
	unmap(first.space, last, pages);
	unmap(second.space, last, pages);
	unmap(third.space, other, pages);
	process_end(&fourth);
}

#define TABLE_AT (FIXED_AT + 12 * SECTION_BYTES) // where no space has had a table
#define COPIED_AT (FIXED_AT + 16 * SECTION_BYTES)
// A shared section while no frame is left: what needs one is refused, and leaves everything as it was.
static void full_memory(void)
{
	u32 a = first.space, b = second.space, c = third.space, pages = SECTION_PAGES;
	if (map(a, TABLE_AT, pages, READ_WRITE) < 0)
		return; // guaranteed FCSE refuses
	writes(&first, TABLE_AT, 1);
	share(a, TABLE_AT, b, TABLE_AT, pages, READ_WRITE);
	map(a, COPIED_AT, pages, READ_WRITE);
	copy(a, COPIED_AT, c, LOW_AT, 1); // to be shared for writing it needs a page of its own
	writes(&first, LOW_AT, 0);
	check(map(0, FULL_AT, FULL_PAGES, READ_WRITE) == ERROR_NO_MEMORY && free_frames() == 0, "more pages than frames");
	bool unmapped = unmap(b, TABLE_AT, 1) == 0; // a space that shares a table needs one of its own for it
	check(unmapped != option("scheme", "fass_shared"), "a page of a shared table is unmapped");
	check(share(a, COPIED_AT, b, COPIED_AT, pages, READ_WRITE) == ERROR_NO_MEMORY,
	      "a section with a copied page is shared");
	check(copy(a, TABLE_AT, c, OTHER_AT, 1) != 0 || unmap(c, OTHER_AT, 1) == 0, "a copy while memory is full");
	unmap(0, FULL_AT, FULL_PAGES);
	check(reads(&second, TABLE_AT, 1) == !unmapped && reads(&first, TABLE_AT, 1), "what is as it was");
	check(!reads(&second, COPIED_AT, 0), "what was refused is not there");
	check(writes(&first, TABLE_AT + PAGE_BYTES, 2) && reads(&second, TABLE_AT + PAGE_BYTES, 2), "the rest is shared still");
	copy(a, COPIED_AT + PAGE_BYTES, c, OTHER_AT, 1);
	check(share(a, COPIED_AT, b, COPIED_AT, pages, READ_WRITE) == 0, "a section with copied pages");
	check(writes(&second, COPIED_AT + PAGE_BYTES, 3) && reads(&first, COPIED_AT + PAGE_BYTES, 3),
	      "is one for both");
	check(reads(&third, OTHER_AT, 0), "and not for the copy's owner");
	unmap(c, OTHER_AT, 1);
	check(unmap(b, TABLE_AT, 1) == 0 && !reads(&second, TABLE_AT, 1), "unmapped now");
	check(unmap(a, TABLE_AT, pages) == 0 && unmap(a, COPIED_AT, pages) == 0, "the end of the sections");
	unmap(b, TABLE_AT, pages);
	unmap(b, COPIED_AT, pages);
	unmap(c, LOW_AT, 1);
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
	for (u32 i = 0; i < 4; i++) // of four calls one makes the checked kernel count the space's pages again
		unmap(process->space, SLOT_END, 0);
	check(reads(process, LOW_AT, 99), "the page that moved");
	u32 found = 0;
	for (u32 slot = 1; slot <= 12; slot++)
		found += reads(process, slot << 25, slot);
	check(found == 0 || found == 12, "what is in the slots");
}

// Where a space has a PID, the addresses of its slot are second names of its low ones. Nothing is mapped there.
static void own_slots_names(void)
{
	start_all();
	map(first.space, LOW_AT, 1, READ_WRITE);
	check(writes(&first, LOW_AT, 5), "a low page");
	for (u32 slot = 1; slot < MOST_PIDS; slot++) {
		u32 name = slot << 25 | LOW_AT;
		share(first.space, name, second.space, LOW_AT, 1, RIGHT_READ);
		copy(first.space, name, second.space, OTHER_AT, 1);
		check(unmap(first.space, name, 1) == 0, "nothing is unmapped in a slot");
	}
	check(reads(&first, LOW_AT, 5), "a low page whose second names were unmapped");
	check(!reads(&second, LOW_AT, 5) && !reads(&second, OTHER_AT, 5), "pages shared and copied by their second names");
	end_all();
}

// More sections of one space than FASS lists for a domain; then all domains change hands.
static void many_sections(void)
{
	agent_start(&first, agent);
	for (u32 round = 0; round < 2; round++) {
		for (u32 i = 0; i < 30; i++) {
			bool mapped = map(first.space, FIXED_AT + i * SECTION_BYTES, 1, READ_WRITE) == 0; // guaranteed FCSE refuses
			check(writes(&first, FIXED_AT + i * SECTION_BYTES, i) == mapped, "a page in one of many sections");
		}
		crowd();
		for (u32 i = 0; i < 30; i++)
			if (reads(&first, FIXED_AT + i * SECTION_BYTES, i) != reads(&first, FIXED_AT, 0))
				check(false, "what one of many sections holds");
	}
	process_end(&first);
}

// A space gives up all that it has above 32 MB, and then gets it again: pages in the slots of others.
static void grown_again(void)
{
	start_all();
	map(second.space, LOW_AT, 1, READ_WRITE);
	for (u32 round = 0; round < 2; round++) {
		for (u32 slot = 1; slot <= 12; slot++) {
			bool mapped = map(first.space, slot << 25 | LOW_AT, 1, READ_WRITE) == 0; // guaranteed FCSE refuses
			check(writes(&second, LOW_AT, 99), "a page that is relocated");
			check(writes(&first, slot << 25 | LOW_AT, slot) == mapped, "a page in a slot that may be another's");
			check(reads(&second, LOW_AT, 99), "the other's page");
		}
		for (u32 slot = 1; slot <= 12; slot++)
			unmap(first.space, slot << 25 | LOW_AT, 1);
		check(!reads(&first, LOW_AT, 0), "nothing is left");
	}
	end_all();
}

// Who has written a shared page is not who gives it on, and has not run for long, to where it has another address.
static void given_on(void)
{
	start_all();
	if (map(first.space, FIXED_AT, 1, READ_WRITE) == 0) { // guaranteed FCSE refuses
		share(first.space, FIXED_AT, second.space, FIXED_AT, 1, READ_WRITE);
		check(writes(&first, FIXED_AT, 1) && reads(&second, FIXED_AT, 1), "a page at one address in two spaces");
		crowd();
		map(third.space, LOW_AT, 1, READ_WRITE);
		check(reads(&third, LOW_AT, 0), "so that the third has a domain");
		check(writes(&second, FIXED_AT, 2), "the one writes");
		share(first.space, FIXED_AT, third.space, LOW_AT, 1, READ_WRITE);
		check(reads(&third, LOW_AT, 2), "what the other gives on has what was written");
	}
	end_all();
}

// Who has written a page of a shared section is not whose copy is taken, and who has not run for long.
static void copied_from_another(void)
{
	start_all();
	if (map(first.space, FIXED_AT, SECTION_PAGES, READ_WRITE) == 0) { // guaranteed FCSE refuses
		share(first.space, FIXED_AT, second.space, FIXED_AT, SECTION_PAGES, READ_WRITE);
		check(writes(&first, FIXED_AT, 1) && reads(&second, FIXED_AT, 1), "a section of two");
		crowd();
		map(third.space, LOW_AT, 1, READ_WRITE);
		check(reads(&third, LOW_AT, 0), "so that the third has a domain");
		check(writes(&second, FIXED_AT, 2), "the one writes");
		copy(first.space, FIXED_AT, third.space, LOW_AT, 1);
		check(reads(&third, LOW_AT, 2), "a copy of the other's page has what was written");
	}
	end_all();
}

// The root's section becomes a shared one. Nobody has used it since when a third comes to its address.
static void own_section_shared(void)
{
	volatile u32 *own = (volatile u32 *)FIXED_AT;
	start_all();
	if (map(0, FIXED_AT, SECTION_PAGES, READ_WRITE) == 0) { // guaranteed FCSE refuses
		map(third.space, FIXED_AT, 1, READ_WRITE);
		map(third.space, LOW_AT, 1, READ_WRITE);
		check(writes(&third, LOW_AT, 1), "so that the third has a domain");
		*own;
		*own = 7;
		check(share(0, FIXED_AT, second.space, FIXED_AT, SECTION_PAGES, READ_WRITE) == 0, "one's own section is shared");
		check(reads(&third, FIXED_AT, 0), "what a third has at its address");
		check(*own == 7 && reads(&second, FIXED_AT, 7), "what it holds");
		unmap(0, FIXED_AT, SECTION_PAGES);
	}
	end_all();
}

// Two spaces with one PID share pages, as the 64th and the first of the processes here under FASS; then one of them
// moves to another slot, and the pages have two addresses.
static void moved_sharer(u32 root_thread)
{
	static const u32 moved_at[] = { LOW_AT, 0x00200000, 0x002ff000 }; // the first and the last page of a section
	struct message m = { { 0 } };
	u32 count = 0;
	agent_start(&first, agent);
	while (count < MOST_PIDS + MOST_PIDS && process_start(&processes[count], agent, root_thread, PRIORITY, root_thread))
		count++;
	for (u32 i = 0; i < count; i++) {
		struct process *other = &processes[i];
		ipc_receive(other->thread, &m);
		check(map(other->space, LOW_AT, 1, READ_WRITE) == 0 && writes(other, LOW_AT, 1), "a page of one of many");
		if (count < MOST_PIDS || i < 60 || i >= 64)
			continue; // those with other PIDs
		for (u32 at = 0; at < 3; at++) {
			u32 page = moved_at[at];
			map(first.space, page, 1, READ_WRITE);
			check(share(first.space, page, other->space, page, 1, READ_WRITE) == 0, "a page is shared");
			check(writes(&first, page, i) && reads(other, page, i), "and written and read");
		}
		for (u32 slot = 1; slot < 8; slot++)
			if (map(other->space, slot << 25, 1, READ_WRITE) < 0)
				break; // guaranteed FCSE refuses
		for (u32 at = 0; at < 3; at++)
			check(writes(&first, moved_at[at], i + 1) && reads(other, moved_at[at], i + 1), "and read where it moved");
	}
	while (count)
		process_end(&processes[--count]);
	process_end(&first);
}

void memory_calls(u32 root_thread)
{
	written_code();
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
	start_all();
	two_pairs();
	end_all();
	ended_neighbour();
	own_slot(&first);
	own_slot(&second);
	own_slot(&third);
	own_slots_names();
	many_sections();
	grown_again();
	given_on();
	copied_from_another();
	own_section_shared();
	moved_sharer(root_thread);
	start_all();
	full_memory(); // last, because best effort FCSE moves the root to slot 0 for it
	end_all();
}
