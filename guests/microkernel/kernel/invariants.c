// The test build's check after each system call and fault: records, queues, frames, tables and the page
// directory that the hardware reads say the same of who has what. It stops the machine with what is wrong and
// where. Threads, domains and the directory's owned entries are checked each time; of the tables those that
// every NAMED_EVERY-th call named, and everything every FULL_EVERY times.
#ifdef INVARIANTS
#include "maintenance.h"
#include "memory.h"
#include "space/fass.h"

#define FULL_EVERY 512
#define NAMED_EVERY 4
#define MOST_PIDS 128 // of any core
#define LEAST_PIDS 64
#define USER_SECTIONS (USER_LIMIT >> SECTION_SHIFT)
#define FIRST_FRAME ((KERNEL_PHYSICAL + 0x100000) / PAGE_BYTES)
#define END_FRAME (DIRECTORY_POOL / PAGE_BYTES)

static void must(bool holds, const char *what, u32 where)
{
	if (!holds)
		panic(what, where);
}

static bool is_fass(void)
{
	return scheme == &scheme_fass || scheme == &scheme_fass_shared;
}

// ---- threads -----------------------------------------------------------------------------------
enum place { NOWHERE, IN_READY, IN_SLEEPERS, IN_SENDERS };
static unsigned char place[THREADS];

static void found(const struct thread *thread, enum place where)
{
	u32 index = thread - threads;
	must(index && index < THREADS && thread->id, "a queue holds a destroyed thread", index);
	must(place[index] == NOWHERE, "a thread is in two queues", index);
	place[index] = where;
}

static void check_queues(void)
{
	u32 best = 0;
	for (u32 i = 0; i < THREADS; i++)
		place[i] = NOWHERE;
	for (u32 priority = 0; priority < PRIORITIES; priority++)
		for (struct thread *t = ready[priority].first; t; t = t->next) {
			found(t, IN_READY);
			must(thread_priority(t) == priority, "a thread is in the queue of another priority", t->id);
			must(t->next || ready[priority].last == t, "a ready queue's end", priority);
			best = priority;
		}
	must(cpu.ready_priority == best << 10, "the best ready priority", cpu.ready_priority);
	for (struct thread *t = sleepers; t; t = t->next)
		found(t, IN_SLEEPERS);
	for (u32 i = 1; i < THREADS; i++)
		if (threads[i].id)
			for (struct thread *t = threads[i].senders; t; t = t->next) {
				found(t, IN_SENDERS);
				must(t->sends_to == threads[i].id, "a sender is in another's list", t->id);
			}
}

static void check_thread(const struct thread *thread)
{
	u32 index = thread - threads;
	if (!thread->id) {
		must(thread->state == THREAD_FREE && !thread->waits_for && !thread->space, "a destroyed thread has a state", index);
		return;
	}
	enum place expected = NOWHERE;
	switch (thread->state) {
	case THREAD_FREE:
		panic("a thread has no state", index);
	case THREAD_READY:
		expected = thread == cpu.current || thread->waits_for ? NOWHERE : IN_READY;
		break;
	case THREAD_SENDING:
	case THREAD_SENDING_FAULT:
		expected = IN_SENDERS;
		break;
	case THREAD_SLEEPING:
		expected = IN_SLEEPERS;
		break;
	case THREAD_FAULTED:
		break;
	}
	must(place[index] == expected, "a thread is not where its state says", index);
	must(!thread->waits_for || thread->state == THREAD_READY, "a thread waits and does something else", index);
	must(!thread->waits_for || thread->waits_for == ANY || thread_find(thread->waits_for), "a thread waits for nobody", index);
	must(thread->waits_for != thread->id, "a thread waits for itself", index);
	must(!(thread->pc & 1) || thread->waits_for, "a thread that does not wait is marked as waiting in Thumb state", index);
	const struct space *space = thread->space;
	must(space >= spaces && space < spaces + SPACES && space->id, "a thread has no space", index);
	must(thread->pid == space->pid << 25, "a thread has another PID than its space", index);
	must(thread->fast_switch == space->fast_switch, "a thread switches otherwise than its space", index);
	must((thread->cpsr & 0xdf & ~STATUS_THUMB) == STATUS_USER, "a thread is not in user mode", index);
}

static void check_threads(void)
{
	u32 live = 0, listed = 0;
	check_queues();
	must(cpu.current && cpu.current->id && !cpu.current->waits_for && cpu.current->state == THREAD_READY,
	     "the current thread cannot run", cpu.current ? cpu.current->id : 0);
	for (u32 i = 1; i < THREADS; i++) {
		check_thread(&threads[i]);
		live += !!threads[i].id;
	}
	for (u32 i = 1; i < SPACES; i++) {
		must(spaces[i].id || !spaces[i].threads, "a free space has threads", i);
		for (struct thread *t = spaces[i].threads; t; t = t->next_in_space, listed++)
			must(t->id && t->space == &spaces[i] && listed < THREADS, "a space's list of threads", i);
	}
	must(live == listed, "a thread is in no space's list", live);
	u32 free = 0;
	for (const struct thread *t = free_threads; t; t = t->next, free++)
		must(!t->id && free < THREADS, "a list of free threads", t - threads);
	must(live + free == THREADS - 1, "threads are lost", free);
}

// ---- tables and frames -------------------------------------------------------------------------
static bool frame_in_use(u32 frame)
{
	return frame / PAGE_BYTES >= FIRST_FRAME && frame / PAGE_BYTES < END_FRAME;
}

// Does the frame's list hold this link?
static bool linked(u32 frame, u32 link)
{
	u32 count = 0;
	bool found_it = false;
	for (u32 at = frames[frame / PAGE_BYTES].mappings; at && count <= MAX_MAPPINGS; count++) {
		found_it |= at == link;
		at = *(volatile u32 *)window(at);
	}
	must(count == frames[frame / PAGE_BYTES].count, "a frame's count of mappings", frame);
	return found_it;
}

static void check_page(volatile struct table *table, u32 index)
{
	u32 soft = table->soft[index], frame = soft & ~(PAGE_BYTES - 1);
	u32 address = table->section << SECTION_SHIFT | index << 12;
	must(table->hardware[index] == memory_encoding(soft), "a page's entry is not what it should be", address);
	if (!(soft & PRESENT)) {
		must(!soft, "a page that is absent has bits", address);
		return;
	}
	if (soft & DEVICE) {
		must(frame >= WINDOW_MEGABYTES << 20, "a device in memory", address);
		return;
	}
	must(frame_in_use(frame), "a page outside the frames", address);
	must(linked(frame, (u32)&table->next[index] - WINDOW), "a page is not in its frame's list", address);
	must(soft & WRITABLE || !(soft & (COPY_ON_WRITE | WRITTEN)), "a page that cannot be written waits for a write, or had one", address);
	must((soft & (WRITABLE | COPY_ON_WRITE)) != WRITABLE || frames[frame / PAGE_BYTES].flags & FRAME_WRITABLE,
	     "a page that can be written is not known as such", address);
}

static void check_section(const struct space *space, u32 section)
{
	u32 entry = directory_read(space->directory, section), present = 0;
	if (!entry)
		return;
	volatile struct table *table = table_at(entry);
	must(frame_in_use(FIRST_TABLE_OF(entry)), "a table outside the frames", section);
	must((entry & 0x1f) == core->coarse_bits, "an entry of a directory is no table's", section);
	must(is_fass() || FIRST_DOMAIN_OF(entry), "a user's section is in the kernel's domain", section);
	must(table->section == section, "a table is at another section", section);
	if (table->sharers == 1)
		must(table->space == (u32)(space - spaces), "a table belongs to another space", section);
	for (u32 i = 0; i < TABLE_ENTRIES; i++) {
		check_page(table, i);
		present += table->soft[i] & PRESENT;
	}
	must(present == table->present, "a table's count of pages", section);
	if (table->sharers == 1)
		return;
	u32 sharers = 0;
	for (u32 i = 1; i < SPACES; i++)
		sharers += spaces[i].id && FIRST_TABLE_OF(directory_read(spaces[i].directory, section)) == FIRST_TABLE_OF(entry);
	must(sharers == table->sharers, "a table's count of sharers", section);
	must(scheme == &scheme_fass_shared && fass_region_at(space, section), "a shared table without a region", section);
	for (u32 i = 0; i < REGIONS; i++)
		must(!(space->fass.regions & 1u << i) || regions[i].section != section || regions[i].sharers == sharers,
		     "a shared table's region has other sharers", section);
}

static u32 list_length(u32 frame)
{
	u32 length = 0;
	for (; frame && length <= FRAMES; length++) {
		must(frame_in_use(frame), "a list of frames leads elsewhere", frame);
		frame = frames[frame / PAGE_BYTES].mappings;
	}
	return length;
}

// Every frame is free, waits, is mapped or is a table.
static void check_everything(void)
{
	u32 tables = 0, mapped = 0, total = (DIRECTORY_POOL - KERNEL_FRAMES_END) / PAGE_BYTES;
	for (u32 i = 1; i < SPACES; i++) {
		if (!spaces[i].id)
			continue;
		for (u32 section = 0; section < USER_SECTIONS; section++) {
			u32 entry = directory_read(spaces[i].directory, section);
			if (!entry)
				continue;
			check_section(&spaces[i], section);
			tables += table_at(entry)->space == i;
		}
	}
	u32 free = list_length(free_frames), waiting = list_length(quarantine);
	must(free + waiting == free_count, "the count of free frames", free_count);
	for (u32 frame = free_frames; frame; frame = frames[frame / PAGE_BYTES].mappings)
		frames[frame / PAGE_BYTES].count = 0xffff; // marked
	for (u32 frame = quarantine; frame; frame = frames[frame / PAGE_BYTES].mappings)
		frames[frame / PAGE_BYTES].count = 0xffff;
	for (u32 i = FIRST_FRAME; i < END_FRAME; i++) {
		mapped += frames[i].count && frames[i].count != 0xffff;
		if (frames[i].count == 0xffff)
			frames[i].count = 0;
	}
	must(free_count + mapped + tables == total, "frames have leaked", total - (free_count + mapped + tables));
}

// ---- what the schemes count ----------------------------------------------------------------------
static void check_counted(const struct space *space)
{
	u32 above = 0, written = 0, index = space - spaces;
	for (u32 section = 0; section < USER_SECTIONS; section++) {
		u32 entry = directory_read(space->directory, section);
		for (u32 i = 0; entry && i < TABLE_ENTRIES; i++) {
			u32 soft = table_at(entry)->soft[i];
			above += (soft & (PRESENT | DEVICE)) == PRESENT && section >> 5 && section >> 5 != space->pid;
			written += !!(soft & WRITTEN);
		}
	}
	must(space->fcse.pages_above == above, "a space's count of pages above 32 MB", index);
	must(space->fcse.written_shared == written, "a space's count of shared pages that it has written", index);
}

// A scheme with PIDs that takes any number of spaces gives a new one a PID that no other has fewer spaces of.
static bool many_to_a_pid(void)
{
	return is_fass() || scheme == &scheme_fcse_best_effort;
}

static void check_pids(const u32 *call)
{
	u32 users[MOST_PIDS];
	memset32(users, 0, sizeof users);
	for (u32 i = 1; i < SPACES; i++)
		users[spaces[i].pid] += !!spaces[i].id;
	for (u32 pid = 0; scheme->pid_users && pid < MOST_PIDS; pid++)
		must(scheme->pid_users(pid) == users[pid], "how many spaces have a PID", pid);
	const struct space *created = call[12] == CALL_SPACE_CREATE ? space_find(call[0]) : 0;
	for (u32 pid = 1; created && many_to_a_pid() && pid < LEAST_PIDS; pid++)
		must(created->pid && users[created->pid] <= users[pid] + 1, "a new space has a PID that others have more than another", pid);
}

// ---- FASS: domains and the caching page directory ----------------------------------------------
static void check_slot(u32 section)
{
	u32 entry = directory_read(CPD, section), domain = FIRST_DOMAIN_OF(entry);
	if (!entry)
		return;
	const struct domain *d = &domains[domain];
	must(domain && !(free_domains & 1 << domain), "an entry of the CPD has a domain that is free", section);
	bool listed = d->overflow;
	for (u32 i = 0; i < d->count; i++)
		listed |= *fass_owned(domain, i) == section;
	must(listed, "an entry of the CPD is not in its domain's list", section);
	if (d->zombie)
		return;
	const struct space *space = d->space;
	if (d->region) {
		must(d->region->section == section, "a region's entry at another section", section);
		for (u32 i = 1; i < SPACES && !space; i++)
			if (spaces[i].id && spaces[i].fass.regions & 1u << (d->region - regions))
				space = &spaces[i];
	} else {
		for (u32 i = 0; i < REGIONS; i++) // and not by the function that the kernel asks
			must(!(space->fass.regions & 1u << i) || regions[i].section != section,
			     "a space's own domain has the entry of its region", section);
	}
	must(space && entry == (directory_read(space->directory, section) | FIRST_DOMAIN(domain)),
	     "an entry of the CPD is not its owner's", section);
}

static void check_domains(void)
{
	u32 sharers[REGIONS];
	memset32(sharers, 0, sizeof sharers);
	for (u32 d = 1; d < DOMAINS; d++) {
		const struct domain *domain = &domains[d];
		u32 holders = !!domain->space + !!domain->region + domain->zombie + !!(free_domains & 1 << d);
		must(holders == 1, "a domain has not one holder", d);
		must(!domain->space || (domain->space->id && domain->space->fass.domain == d), "a domain's space has another", d);
		must(!domain->region || domain->region->domain == d, "a domain's region has another", d);
		must(!domain->zombie || cpu.dirty & DOMAIN_CLIENT(d) || !enabled(FASS_ZOMBIE), "a clean zombie", d);
		for (u32 i = 0; i < domain->count; i++) {
			u32 section = *fass_owned(d, i);
			must(FIRST_DOMAIN_OF(directory_read(CPD, section)) == d, "a domain's list has another's entry", section);
			check_slot(section);
		}
	}
	for (u32 i = 1; i < SPACES; i++) {
		const struct space *space = &spaces[i];
		if (!space->id)
			continue;
		u32 own = space->fass.domain ? DOMAIN_CLIENT(0) | DOMAIN_CLIENT(space->fass.domain) : 0;
		must(!space->fass.domain || domains[space->fass.domain].space == space, "a space's domain is another's", i);
		must((space->fast_switch & own) == own, "a space does not enable its domain", i);
		for (u32 j = 1; j < RECENT_SECTIONS; j++)
			for (u32 k = 0; k < j; k++)
				must(!space->fass.recent[j] || space->fass.recent[j] != space->fass.recent[k], "a section is remembered twice", i);
		u32 shared = 0;
		for (u32 j = 0; j < REGIONS; j++)
			if (space->fass.regions >> j & 1) {
				sharers[j]++;
				shared |= regions[j].domain ? DOMAIN_CLIENT(regions[j].domain) : 0;
			}
		must(!(space->fast_switch & ~(own | shared)), "a space enables what is not its", i);
	}
	must(core_domains() == cpu.active->fast_switch, "the DACR is not the active space's", core_domains());
	must(!(core_domains() & ~cpu.dirty & ~3u), "an enabled domain is not dirty", cpu.dirty);
	for (u32 i = 0; i < REGIONS; i++)
		must(sharers[i] == regions[i].sharers, "a region's count of sharers", i);
}

// What the call named, or what a fault touched, is checked at once.
static void check_named(u32 id, u32 address)
{
	const struct space *space = id ? space_find(id) : cpu.current->space;
	if (space && address < USER_LIMIT) {
		check_section(space, modified(space, address) >> SECTION_SHIFT);
		if (scheme->count_above && scheme->count_written)
			check_counted(space);
		if (is_fass())
			check_slot(modified(space, address) >> SECTION_SHIFT);
	}
}

u32 invariants_named;

void invariants_check(const u32 *call)
{
	static u32 calls, turn;
	if (call[12] == CALL_OPTION || call[12] == CALL_PRINT) // they change nothing, and are made for each letter
		return;
	calls++;
	check_threads();
	check_pids(call);
	if (is_fass())
		check_domains();
	else
		must(cpu.active->pid == cpu.current->space->pid, "another space is active", cpu.active->id);
	if (call[12] != CALL_IPC && calls % NAMED_EVERY == 0) { // r1 and r4 have been counted on
		check_named(invariants_named, call[1] - PAGE_BYTES);
		if (call[12] == CALL_SHARE || call[12] == CALL_COPY)
			check_named(call[2], call[4] - PAGE_BYTES);
	}
	for (u32 i = 0; i < 16; i++) {
		turn = turn + 1 < USER_SECTIONS ? turn + 1 : 0;
		if (is_fass())
			check_slot(turn);
	}
	if (calls % FULL_EVERY == 0)
		check_everything();
}
#endif
