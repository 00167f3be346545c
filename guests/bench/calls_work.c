// What calls and accesses take of flushes and faults, by the kernel's counters: work that nobody needs changes no
// result, so that only these show it.
#include "calls.h"

static bool is_fass(void)
{
	return option("scheme", "fass") || option("scheme", "fass_shared");
}

// A space whose lines went with a flush, and which has not run since, needs none for a page that goes.
static void flushed_before(void)
{
	bool lines_stay = is_fass() || option("scheme", "fcse_guaranteed");
	start_all();
	map(first.space, LOW_AT, 1, READ_WRITE);
	map(second.space, LOW_AT, 1, READ_WRITE);
	share(first.space, LOW_AT, third.space, OTHER_AT, 1, READ_WRITE);
	check(writes(&second, LOW_AT, 1), "a page whose lines will be flushed");
	check(writes(&first, LOW_AT, 1), "best effort flushes at the switch from who has written a shared page");
	count_from_here();
	unmap(second.space, LOW_AT, 1);
	check(counted(COUNT_PAGE_FLUSHES) == lines_stay, "flushes for a page of a space whose lines have gone");
	end_all();
}

// When FASS gives a space another domain, it fills the slots of the four sections that came last, mapped or touched.
static void remembered_sections(void)
{
	agent_start(&first, agent);
	for (u32 i = 0; i < 6; i++)
		map(first.space, FIXED_AT + i * SECTION_BYTES, 1, READ_WRITE);
	for (u32 i = 6; i--;)
		check(writes(&first, FIXED_AT + i * SECTION_BYTES, i), "a page in one of six sections");
	crowd();
	count_from_here();
	check(reads(&first, FIXED_AT, 0) && reads(&first, FIXED_AT + SECTION_BYTES, 1), "pages in the sections touched last");
	check(counted(COUNT_FILLS) == 1 && counted(COUNT_COLLISIONS) == 0, "no fault on them: only one on the program's own");
	for (u32 i = 2; i < 6; i++)
		check(reads(&first, FIXED_AT + i * SECTION_BYTES, i), "a page in one of the others");
	check(counted(COUNT_FILLS) == 3, "two more faults: two of the four others were among the last");
	process_end(&first);
}

// The same in slot 0, where the program's own section is the first of all.
static void remembered_in_slot_0(void)
{
	agent_start(&first, agent);
	for (u32 slot = 1; slot <= 12; slot++) // one of them is its own: it moves
		map(first.space, slot << 25, 1, READ_WRITE);
	map(first.space, FIXED_AT, 1, READ_WRITE);
	map(first.space, FIXED_AT + SECTION_BYTES, 1, READ_WRITE);
	for (u32 round = 0; round < 2; round++) {
		check(writes(&first, FIXED_AT, 1) && writes(&first, FIXED_AT + SECTION_BYTES, 2), "a page of a space in slot 0");
		crowd();
	}
	count_from_here();
	check(reads(&first, FIXED_AT, 1) && reads(&first, FIXED_AT + SECTION_BYTES, 2), "the same pages");
	check(counted(COUNT_FILLS) == 0 && counted(COUNT_COLLISIONS) == 0, "a fault on a section of a space in slot 0");
	process_end(&first);
}

// A space that has no domain shares a section: nothing of it is in the caches or the TLB.
static void shared_without_a_domain(void)
{
	agent_start(&first, agent);
	agent_start(&second, agent);
	map(first.space, FIXED_AT, SECTION_PAGES, READ_WRITE);
	check(writes(&first, FIXED_AT, 1), "a page of a section that will be shared");
	crowd();
	count_from_here();
	unmap(first.space, FIXED_AT + PAGE_BYTES, 1);
	check(counted(COUNT_PAGE_FLUSHES) == 0, "a flush for a page of a space without a domain");
	share(first.space, FIXED_AT, second.space, FIXED_AT, SECTION_PAGES, READ_WRITE);
	check(counted(COUNT_FLUSHES) == 0, "a flush for a section of a space without a domain");
	check(reads(&second, FIXED_AT, 1), "what is in it");
	process_end(&first);
	process_end(&second);
}

// After a flush a new space gets the domain of another space, not one of a shared section, which all its sharers
// would have to ask for again.
static void sections_last(void)
{
	enum { DOMAINS = 15 }; // of which the root, two sharers and their section have four
	u32 count = 0;
	agent_start(&first, agent);
	agent_start(&second, agent);
	map(first.space, LOW_AT, 1, READ_WRITE);
	map(first.space, FIXED_AT, SECTION_PAGES, READ_WRITE);
	check(writes(&first, LOW_AT, 4), "a page of a sharer's own");
	share(first.space, FIXED_AT, second.space, FIXED_AT, SECTION_PAGES, READ_WRITE);
	check(writes(&first, FIXED_AT, 1) && reads(&second, FIXED_AT, 1), "a shared section");
	for (; count < DOMAINS - 4; count++) {
		agent_start(&processes[count], agent);
		map(processes[count].space, FIXED_AT + SECTION_BYTES, 1, READ_WRITE);
	}
	check(writes(&processes[0], FIXED_AT + SECTION_BYTES, 2) && writes(&processes[1], FIXED_AT + SECTION_BYTES, 3), "a collision");
	for (u32 i = 0; i < 4; i++)
		agent_start(&processes[count++], agent);
	check(reads(&first, LOW_AT, 4), "a sharer's own page"); // for which it may need another domain
	count_from_here();
	check(reads(&first, FIXED_AT, 1), "a page of the shared section");
	check(!counted(COUNT_RECYCLED_CLEAN) && !counted(COUNT_RECYCLED_DIRTY) && !counted(COUNT_FILLS), "the section has its domain still");
	while (count)
		process_end(&processes[--count]);
	process_end(&first);
	process_end(&second);
}

// Up to 32 sections are one table for their sharers; the next one's pages get a table of their own.
static void sections_as_one_table(void)
{
	enum { REGIONS = 32 };
	agent_start(&first, agent);
	agent_start(&second, agent);
	for (u32 i = 0; i <= REGIONS; i++) {
		u32 at = i ? FIXED_AT + i * SECTION_BYTES : SLOT_END;
		map(first.space, at, 1, READ_WRITE);
		u32 frames = free_frames();
		check(share(first.space, at, second.space, at, SECTION_PAGES, READ_WRITE) == 0, "one of many sections");
		check(free_frames() == frames - (i == REGIONS), "a table for one of many sections");
		check(writes(&first, at, i) && reads(&second, at, i), "what is in one of many sections");
	}
	process_end(&first);
	process_end(&second);
}

// The caller's own section, of which it gives up a page: its domain is withdrawn from the space that runs on.
static void own_section(void)
{
	volatile u32 *own = (volatile u32 *)FIXED_AT;
	agent_start(&first, agent);
	map(0, FIXED_AT, SECTION_PAGES, READ_WRITE);
	check(share(0, FIXED_AT, first.space, FIXED_AT, SECTION_PAGES, READ_WRITE) == 0, "the caller's own section is shared");
	*own = 1;
	check(reads(&first, FIXED_AT, 1) && *own == 1, "and read by both");
	unmap(0, FIXED_AT + PAGE_BYTES, 1);
	check(*own == 1 && reads(&first, FIXED_AT, 1), "and the rest still after a page is gone");
	unmap(0, FIXED_AT, SECTION_PAGES);
	process_end(&first);
}

void work_of_calls(void)
{
	flushed_before();
	if (!is_fass())
		return;
	remembered_sections();
	remembered_in_slot_0();
	shared_without_a_domain();
	if (!option("scheme", "fass_shared"))
		return;
	own_section();
	sections_last();
	sections_as_one_table();
}
