// Frames, page tables and mappings, the same for all schemes. A scheme says what is in the caches and
// the TLB and how directories reach the hardware; everything about single pages is here.
//
// Page tables and page contents are only touched through the window, which is neither cached nor
// buffered: the walker reads memory, and looks into neither the data cache nor the write buffer. A store
// to such a page ends when memory has it (SA-1100 manual 6.3; XScale manual 3.2.2; DDI 0151, 4.2;
// DDI 0198D, 4.3), so that no table needs a drain, and the window's addresses are never a second copy
// of a line.
#include "core/core.h"
#include "maintenance.h"
#include "memory.h"
#include "space/space.h"

struct space spaces[SPACES];
u32 cache_epoch = 1;
struct frame frames[FRAMES];
u32 free_frames, quarantine; // lists of frames
u32 free_count;              // in both

// ---- frames ------------------------------------------------------------------------------------
static void frame_to_free_list(u32 frame)
{
	struct frame *f = &frames[frame / PAGE_BYTES];
	f->mappings = free_frames;
	free_frames = frame;
}

static void frame_free(u32 frame)
{
	frame_to_free_list(frame);
	free_count++;
}

static u32 frame_take(void)
{
	if (!free_frames && quarantine)
		scheme->flush(); // releases the frames that wait for it
	u32 frame = free_frames;
	if (!frame)
		return 0;
	struct frame *f = &frames[frame / PAGE_BYTES];
	free_frames = f->mappings;
	free_count--;
	f->mappings = 0;
	f->flags = 0;
	return frame;
}

static u32 frame_zeroed(void)
{
	u32 frame = frame_take();
	if (frame)
		memset32(window(frame), 0, PAGE_BYTES);
	return frame;
}

static void page_copy(u32 *to, const u32 *from)
{
	for (u32 i = 0; i < PAGE_BYTES / 4; i++)
		to[i] = from[i];
}

u32 memory_free_frames(void)
{
	return free_count;
}

// Frames whose lines may still be in the caches wait here for the next full flush, which calls this.
static void frame_quarantine(u32 frame)
{
	frames[frame / PAGE_BYTES].mappings = quarantine;
	quarantine = frame;
	free_count++;
}

void quarantine_release(void)
{
	while (quarantine) {
		u32 frame = quarantine;
		quarantine = frames[frame / PAGE_BYTES].mappings;
		frame_to_free_list(frame);
	}
}

void memory_start(void)
{
	for (u32 frame = DIRECTORY_POOL - PAGE_BYTES; frame >= KERNEL_FRAMES_END; frame -= PAGE_BYTES)
		frame_free(frame);
	for (u32 i = 0; i < SPACES; i++)
		spaces[i].directory = DIRECTORY_POOL + i * DIRECTORY_BYTES;
}

// ---- directories and tables --------------------------------------------------------------------
static u32 space_index(const struct space *space)
{
	return space - spaces;
}

// The table of an address, or 0. The addresses of the space's own slot are second names of its low ones:
// nothing is mapped there.
static volatile struct table *table_of(struct space *space, u32 address)
{
	if (space->pid && address >> 25 == space->pid)
		return 0;
	u32 entry = directory_read(space->directory, modified(space, address) >> SECTION_SHIFT);
	return entry ? table_at(entry) : 0;
}

static u32 physical_of(volatile const void *at)
{
	return (u32)at - WINDOW;
}

static volatile struct table *table_create(struct space *space, u32 address)
{
	u32 frame = frame_zeroed();
	if (!frame)
		return 0;
	volatile struct table *table = table_at(frame);
	u32 section = modified(space, address) >> SECTION_SHIFT;
	table->space = space_index(space);
	table->section = section;
	table->sharers = 1;
	directory_write(space->directory, section, frame | core->coarse_bits);
	scheme->directory_changed(space, section);
	return table;
}

static u32 index_of(u32 address)
{
	return address >> 12 & (TABLE_ENTRIES - 1);
}

// ---- single entries ----------------------------------------------------------------------------
// The two parts of a software page-table entry.
static u32 frame_of(u32 soft)
{
	return soft & ~(PAGE_BYTES - 1);
}

static u32 bits_of(u32 soft)
{
	return soft & (PAGE_BYTES - 1);
}

// Where a mapping is: a table and an index, found back from the physical address of its link.
struct mapping {
	volatile struct table *table;
	u32 index;
};

static struct mapping mapping_at(u32 link)
{
	return (struct mapping){ table_at(link), (link & (PAGE_BYTES - 1)) / 4 - 2 * TABLE_ENTRIES };
}

static u32 mapping_address(struct mapping m)
{
	return m.table->section << SECTION_SHIFT | m.index << 12;
}

static struct space *mapping_space(struct mapping m)
{
	return &spaces[m.table->space];
}

// What the hardware's entry says of a page.
u32 memory_encoding(u32 soft)
{
	u32 frame = frame_of(soft);
	if (!(soft & PRESENT))
		return 0;
	bool writable = soft & WRITABLE && !(soft & COPY_ON_WRITE);
	if (scheme->count_written && soft & SHARED && !(soft & WRITTEN))
		writable = false; // the first write faults and is counted
	u32 hardware = frame | SECOND_SMALL_PAGE | (writable ? SECOND_USER_WRITES : SECOND_USER_READS);
	if (soft & DEVICE)
		return hardware;
	bool uncached = frames[frame / PAGE_BYTES].flags & FRAME_UNCACHED;
	return hardware | (uncached ? SECOND_BUFFERED : SECOND_BUFFERED | SECOND_CACHED);
}

static void encode(struct mapping m)
{
	m.table->hardware[m.index] = memory_encoding(m.table->soft[m.index]);
}

static void clean_mapping(struct mapping m)
{
	if (scheme->in_cache(mapping_space(m)))
		MAINTENANCE(PAGE_COPIED_CLEAN, core->clean_page_data(mapping_address(m)));
}

// The translation in the TLB, if any, is older than the entry just written.
static void invalidate_mapping(struct mapping m, u32 maintenance)
{
	if (scheme->in_tlb(mapping_space(m)))
		MAINTENANCE(maintenance, core->invalidate_tlb_entry(mapping_address(m)));
}

// The page at this address is another one, or none, from now on.
static void flush_mapping(struct mapping m)
{
	if (!scheme->in_cache(mapping_space(m)))
		return;
	counters[COUNT_PAGE_FLUSHES]++;
	MAINTENANCE(PAGE_GONE_DATA, core->clean_and_invalidate_page_data(mapping_address(m)));
	MAINTENANCE(PAGE_GONE_INSTRUCTIONS, core->invalidate_page_instructions(mapping_address(m)));
}

static void link(struct mapping m, u32 frame, u32 soft)
{
	struct frame *f = &frames[frame / PAGE_BYTES];
	m.table->soft[m.index] = frame | soft | PRESENT;
	m.table->present++;
	m.table->next[m.index] = f->mappings;
	f->mappings = physical_of(&m.table->next[m.index]);
	f->count++;
}

static void unlink(struct mapping m)
{
	u32 soft = m.table->soft[m.index];
	struct frame *f = &frames[soft / PAGE_BYTES];
	u32 self = physical_of(&m.table->next[m.index]);
	if (f->mappings == self) {
		f->mappings = m.table->next[m.index];
	} else {
		u32 at = f->mappings;
		for (;;) {
			volatile u32 *next = window(at);
			if (*next == self) {
				*next = m.table->next[m.index];
				break;
			}
			at = *next;
		}
	}
	if (soft & WRITTEN)
		scheme->count_written(mapping_space(m), -1);
	f->count--;
	m.table->present--;
	m.table->soft[m.index] = 0;
}

// A mapping was added to a frame: may the copies of its lines differ from now on? Then no mapping of
// it is cached any more.
static void frame_reconsider(u32 frame, bool writable)
{
	struct frame *f = &frames[frame / PAGE_BYTES];
	if (writable)
		f->flags |= FRAME_WRITABLE;
	if (f->flags & FRAME_UNCACHED || !(f->flags & FRAME_WRITABLE))
		return;
	static u32 search;
	search++;
	struct uses uses = { .many_mappings = f->count > 1 };
	struct mapping first = mapping_at(f->mappings);
	for (u32 at = f->mappings; at;) {
		struct mapping m = mapping_at(at);
		struct space *space = mapping_space(m);
		u32 soft = m.table->soft[m.index];
		uses.writable |= (soft & (WRITABLE | COPY_ON_WRITE)) == WRITABLE;
		uses.many_addresses |= mapping_address(m) != mapping_address(first);
		uses.alias_in_space |= space->seen == search;
		space->seen = search;
		at = m.table->next[m.index];
	}
	if (!uses.writable)
		f->flags &= ~FRAME_WRITABLE; // so that the next mapping need not look at all of them again
	if (!uses.writable || !scheme->uncached(&uses))
		return;
	f->flags |= FRAME_UNCACHED;
	for (u32 at = f->mappings; at;) {
		struct mapping m = mapping_at(at);
		if (m.table->hardware[m.index]) {
			encode(m);
			invalidate_mapping(m, PAGE_TIGHTENED_TRANSLATION);
			if (scheme->in_cache(mapping_space(m))) {
				counters[COUNT_PAGE_FLUSHES]++;
				MAINTENANCE(PAGE_UNCACHED_DATA, core->clean_and_invalidate_page_data(mapping_address(m)));
			}
		}
		at = m.table->next[m.index];
	}
}

// ---- tables that several spaces share ----------------------------------------------------------
// A whole section that is the same in several spaces at the same address, with the same rights, may be one
// table, so that a scheme can give it one domain and the spaces one TLB entry for each page (the paper's
// section 3.2): shared memory, or the text of a library. Such a table never changes: whoever changes its
// section gets a table of its own first.
static void table_release(struct space *space, volatile struct table *table)
{
	u32 physical = physical_of(table);
	table->sharers--;
	for (u32 i = 0; i < SPACES && table->space == space_index(space); i++)
		if (spaces[i].id && &spaces[i] != space &&
		    (directory_read(spaces[i].directory, table->section) & ~(PAGE_BYTES - 1)) == physical)
			table->space = i;
}

// One of the spaces changes something: it gets a table of its own, as if it had always had one. One frame may be
// in all its entries, and gets one mapping more by the call that asks.
static volatile struct table *table_unshare(struct space *space, volatile struct table *shared)
{
	u32 address = shared->section << SECTION_SHIFT;
	for (u32 i = 0; i < TABLE_ENTRIES; i++)
		if (shared->soft[i] & PRESENT && frames[shared->soft[i] / PAGE_BYTES].count >= MAX_MAPPINGS - TABLE_ENTRIES)
			return 0;
	table_release(space, shared);
	volatile struct table *own = table_create(space, address);
	if (!own) {
		shared->sharers++;
		return 0;
	}
	for (u32 i = 0; i < TABLE_ENTRIES; i++) {
		u32 soft = shared->soft[i];
		if (!(soft & PRESENT))
			continue;
		struct mapping m = { own, i };
		link(m, frame_of(soft), bits_of(soft)); // at the same address: FASS need not reconsider the frame
		encode(m);
	}
	return own;
}

static void table_attach(struct space *to, volatile struct table *table)
{
	table->sharers++;
	directory_write(to->directory, table->section, physical_of(table) | core->coarse_bits);
}

// The entry for a user address, its table made if need be; .table is 0 if the address is refused or
// there is no memory.
static struct mapping entry_for(struct space *space, u32 address)
{
	struct mapping m = { 0, index_of(address) };
	if (address >= USER_LIMIT || !scheme->admit(space, address))
		return m;
	m.table = table_of(space, address);
	if (!m.table)
		m.table = table_create(space, address);
	else if (m.table->sharers > 1)
		m.table = table_unshare(space, m.table);
	return m;
}

static struct mapping entry_find(struct space *space, u32 address)
{
	struct mapping m = { 0, index_of(address) };
	if (address < USER_LIMIT)
		m.table = table_of(space, address);
	if (m.table && !(m.table->soft[m.index] & PRESENT))
		m.table = 0;
	return m;
}

// A page outside its space's slot is one at or above 32 MB.
static void count_above(struct mapping m, int change)
{
	struct space *space = mapping_space(m);
	if (scheme->count_above && m.table->section >> 5 != space->pid)
		scheme->count_above(space, change);
}

static void remove(struct mapping m)
{
	u32 soft = m.table->soft[m.index], frame = frame_of(soft);
	if (soft & DEVICE) {
		m.table->soft[m.index] = 0;
		m.table->present--;
		encode(m);
		invalidate_mapping(m, PAGE_GONE_TRANSLATION);
		return;
	}
	flush_mapping(m); // while it can still be translated
	unlink(m);
	encode(m);
	invalidate_mapping(m, PAGE_GONE_TRANSLATION);
	count_above(m, -1);
	if (!frames[frame / PAGE_BYTES].count)
		frame_free(frame);
}

// ---- what the system calls do ------------------------------------------------------------------
static bool bad_range(u32 address, u32 pages)
{
	return address & (PAGE_BYTES - 1) || pages > USER_LIMIT / PAGE_BYTES || address > USER_LIMIT - pages * PAGE_BYTES;
}

static int add(struct space *space, u32 address, u32 frame, u32 soft)
{
	if (frames[frame / PAGE_BYTES].count >= MAX_MAPPINGS)
		return ERROR_NO_MEMORY;
	struct mapping m = entry_for(space, address);
	if (!m.table)
		return ERROR_REFUSED;
	if (m.table->soft[m.index] & PRESENT) {
		frames[frame / PAGE_BYTES].count++; // it may be this very frame
		remove(m);
		frames[frame / PAGE_BYTES].count--;
	}
	link(m, frame, soft);
	count_above(m, 1);
	frame_reconsider(frame, soft & WRITABLE && !(soft & COPY_ON_WRITE));
	encode(m);
	return 0;
}

static u32 soft_of_rights(u32 rights)
{
	return rights & RIGHT_WRITE ? WRITABLE : 0;
}

// The calls on many pages count address and pages on in place, and return AGAIN when an interrupt waits and
// pages are left: the call is then made again with what they say, after the interrupt.
int memory_map(struct space *space, u32 *address, u32 *pages, u32 rights)
{
	if (bad_range(*address, *pages))
		return ERROR_INVALID;
	while (*pages) {
		u32 frame = frame_zeroed();
		if (!frame)
			return ERROR_NO_MEMORY;
		int result = add(space, *address, frame, soft_of_rights(rights));
		if (result) {
			frame_free(frame);
			return result;
		}
		*address += PAGE_BYTES;
		if (--*pages && interrupt_pending())
			return AGAIN;
	}
	return 0;
}

// Puts an image into fresh pages, as many as it has.
bool memory_load(struct space *space, u32 address, const void *image, u32 pages, u32 rights)
{
	for (const u32 *from = image; pages; pages--, address += PAGE_BYTES, from += PAGE_BYTES / 4) {
		u32 frame = frame_zeroed();
		if (!frame || add(space, address, frame, soft_of_rights(rights)))
			return false;
		page_copy(window(frame), from);
	}
	return true;
}

int memory_device(struct space *space, u32 address, u32 physical)
{
	if (bad_range(address, 1) || physical & (PAGE_BYTES - 1) || physical < (u32)WINDOW_MEGABYTES << 20)
		return ERROR_INVALID;
	struct mapping m = entry_for(space, address);
	if (!m.table)
		return ERROR_REFUSED;
	if (m.table->soft[m.index] & PRESENT)
		remove(m);
	m.table->soft[m.index] = physical | PRESENT | WRITABLE | DEVICE;
	m.table->present++;
	encode(m);
	return 0;
}

// The page is this mapping's alone from now on, writable.
static bool copy_now(struct mapping m)
{
	u32 soft = m.table->soft[m.index], old = frame_of(soft), bits = bits_of(soft) & ~COPY_ON_WRITE;
	if (frames[old / PAGE_BYTES].count == 1) {
		m.table->soft[m.index] = old | bits;
		frames[old / PAGE_BYTES].flags |= FRAME_WRITABLE;
		encode(m);
		invalidate_mapping(m, PAGE_LOOSENED_TRANSLATION);
		return true;
	}
	u32 frame = frame_take();
	if (!frame)
		return false;
	// Memory is newer than any line of it: it was cleaned when it was copied, and read-only since.
	page_copy(window(frame), window(old));
	flush_mapping(m);
	unlink(m);
	link(m, frame, bits);
	frames[frame / PAGE_BYTES].flags |= FRAME_WRITABLE;
	encode(m);
	invalidate_mapping(m, PAGE_GONE_TRANSLATION);
	return true;
}

// Prepares a page for being shared with these rights; *soft is what the new mapping's software page-table entry says.
// (A copy is in no table that is shared already: its page was made nobody's copy when that began.)
static int share_prepare(struct mapping m, u32 rights, u32 *soft)
{
	u32 old = m.table->soft[m.index];
	if (old & DEVICE || (rights & RIGHT_WRITE && !(old & WRITABLE)))
		return ERROR_INVALID;
	*soft = 0;
	if (!(old & WRITABLE))
		return 0;
	// Both views are of one page from now on: it is nobody's copy.
	if (old & COPY_ON_WRITE && !copy_now(m))
		return ERROR_NO_MEMORY;
	frames[m.table->soft[m.index] / PAGE_BYTES].flags |= FRAME_SHARED;
	clean_mapping(m);
	if (!(m.table->soft[m.index] & SHARED)) {
		m.table->soft[m.index] |= SHARED;
		encode(m);
		if (scheme->count_written)
			invalidate_mapping(m, PAGE_TIGHTENED_TRANSLATION);
	}
	*soft = soft_of_rights(rights) | SHARED;
	return 0;
}

static int share_page(struct space *from, u32 source, struct space *to, u32 address, u32 rights)
{
	struct mapping m = entry_find(from, source);
	u32 soft;
	if (!m.table)
		return 0;
	int result = share_prepare(m, rights, &soft);
	if (result)
		return result;
	return add(to, address, frame_of(m.table->soft[m.index]), soft);
}

// Every page of the table may be given away with these rights, no more and no less.
static bool table_has_rights(volatile struct table *table, u32 rights)
{
	for (u32 i = 0; i < TABLE_ENTRIES; i++) {
		u32 soft = table->soft[i];
		if (soft & PRESENT && (soft & DEVICE || (soft & WRITABLE) != soft_of_rights(rights)))
			return false;
	}
	return true;
}

// Shares a whole section as one table, if it can be: returns 1 then, 0 if it cannot, or an error.
static int share_section(struct space *from, u32 source, struct space *to, u32 address, u32 pages, u32 rights)
{
	if (!scheme->share_section || source != address || address & (SECTION_BYTES - 1) || pages < TABLE_ENTRIES ||
	    address < SLOT_BYTES || from == to || directory_read(to->directory, address >> SECTION_SHIFT))
		return 0;
	volatile struct table *table = table_of(from, address);
	if (!table || !table_has_rights(table, rights) || !scheme->admit(to, address) ||
	    !scheme->share_section(from, to, address >> SECTION_SHIFT))
		return 0;
	for (u32 i = 0; i < TABLE_ENTRIES; i++) {
		u32 soft;
		int result = table->soft[i] & PRESENT ? share_prepare((struct mapping){ table, i }, rights, &soft) : 0;
		if (result) {
			scheme->directory_changed(to, address >> SECTION_SHIFT); // it stays without
			return result;
		}
	}
	table_attach(to, table);
	return 1;
}

int memory_share(struct space *from, u32 *source, struct space *to, u32 *address, u32 *pages, u32 rights)
{
	if (bad_range(*address, *pages) || bad_range(*source, *pages))
		return ERROR_INVALID;
	while (*pages) {
		u32 done = TABLE_ENTRIES;
		int result = share_section(from, *source, to, *address, *pages, rights);
		if (result == 0) {
			done = 1;
			result = share_page(from, *source, to, *address, rights);
		}
		if (result < 0)
			return result;
		*source += done * PAGE_BYTES;
		*address += done * PAGE_BYTES;
		*pages -= done;
		if (*pages && interrupt_pending())
			return AGAIN;
	}
	return 0;
}

static int copy_page(struct space *from, u32 source, struct space *to, u32 address)
{
	struct mapping m = entry_find(from, source);
	if (!m.table)
		return 0;
	u32 soft = m.table->soft[m.index], frame = frame_of(soft);
	if (soft & DEVICE)
		return ERROR_INVALID;
	if (frames[frame / PAGE_BYTES].flags & FRAME_SHARED) {
		// Others continue sharing it, so the copy cannot wait for a write.
		for (u32 at = frames[frame / PAGE_BYTES].mappings; at;) {
			struct mapping other = mapping_at(at);
			clean_mapping(other);
			at = other.table->next[other.index];
		}
		u32 copy = frame_take();
		if (!copy)
			return ERROR_NO_MEMORY;
		page_copy(window(copy), window(frame));
		int result = add(to, address, copy, soft & WRITABLE);
		if (result)
			frame_free(copy);
		return result;
	}
	if (soft & WRITABLE && !(soft & COPY_ON_WRITE)) {
		m.table->soft[m.index] = soft |= COPY_ON_WRITE;
		frames[frame / PAGE_BYTES].flags &= ~FRAME_WRITABLE; // nobody else's is, or it were shared
		encode(m);
		invalidate_mapping(m, PAGE_TIGHTENED_TRANSLATION);
		clean_mapping(m);
	}
	return add(to, address, frame, soft & (WRITABLE | COPY_ON_WRITE));
}

int memory_copy(struct space *from, u32 *source, struct space *to, u32 *address, u32 *pages)
{
	if (bad_range(*address, *pages) || bad_range(*source, *pages))
		return ERROR_INVALID;
	while (*pages) {
		int result = copy_page(from, *source, to, *address);
		if (result)
			return result;
		*source += PAGE_BYTES;
		*address += PAGE_BYTES;
		if (--*pages && interrupt_pending())
			return AGAIN;
	}
	return 0;
}

int memory_unmap(struct space *space, u32 *address, u32 *pages)
{
	if (bad_range(*address, *pages))
		return ERROR_INVALID;
	while (*pages) {
		struct mapping m = entry_find(space, *address);
		if (m.table && m.table->sharers > 1) {
			m.table = table_unshare(space, m.table);
			if (!m.table)
				return ERROR_NO_MEMORY;
		}
		if (m.table)
			remove(m);
		*address += PAGE_BYTES;
		if (--*pages && interrupt_pending())
			return AGAIN;
	}
	return 0;
}

// The page holds new instructions: they leave the data cache, and old ones the instruction cache,
// wherever the page is mapped.
void memory_synchronise(struct space *space, u32 address)
{
	struct mapping m = entry_find(space, address);
	if (!m.table || m.table->soft[m.index] & DEVICE)
		return;
	for (u32 at = frames[m.table->soft[m.index] / PAGE_BYTES].mappings; at;) {
		struct mapping other = mapping_at(at);
		if (scheme->in_cache(mapping_space(other))) {
			MAINTENANCE(SYNCHRONISE_CLEAN, core->clean_page_data(mapping_address(other)));
			MAINTENANCE(SYNCHRONISE_INSTRUCTIONS, core->invalidate_page_instructions(mapping_address(other)));
		}
		at = other.table->next[other.index];
	}
}

// A permission fault: a first write, to a copy or to a shared page? (A user may read all its pages,
// so a refused access was a write; the fault status of these cores does not tell.)
bool memory_fault(struct space *space, u32 address)
{
	struct mapping m = entry_find(space, address);
	if (!m.table || !(m.table->soft[m.index] & WRITABLE))
		return false;
	if (m.table->soft[m.index] & COPY_ON_WRITE)
		return copy_now(m);
	if (scheme->count_written && (m.table->soft[m.index] & (SHARED | WRITTEN)) == SHARED) {
		m.table->soft[m.index] |= WRITTEN;
		counters[COUNT_WRITTEN_SHARED]++;
		scheme->count_written(mapping_space(m), 1);
		encode(m);
		invalidate_mapping(m, PAGE_LOOSENED_TRANSLATION);
		return true;
	}
	return false;
}

// ---- spaces ------------------------------------------------------------------------------------
struct space *space_find(u32 id)
{
	struct space *space = &spaces[id & (SPACES - 1)];
	return id && space->id == id ? space : 0;
}

// The PID that the fewest spaces have, but for 0, whose spaces are not relocated.
u32 pid_least_used(const u32 *users, u32 pids)
{
	u32 best = 1;
	for (u32 pid = 2; pid < pids; pid++)
		if (users[pid] < users[best])
			best = pid;
	return best;
}

struct space *space_create(void)
{
	static u32 generation;
	for (u32 i = 1; i < SPACES; i++) {
		struct space *space = &spaces[i];
		if (space->id)
			continue;
		u32 directory = space->directory;
		bool used_before = space->used_before;
		memset32(space, 0, sizeof *space);
		space->directory = directory;
		space->used_before = used_before;
		if (!used_before)
			memset32(window(directory), 0, DIRECTORY_BYTES);
		if (!scheme->create(space))
			return 0;
		// The kernel is in every directory.
		for (u32 section = USER_LIMIT >> SECTION_SHIFT; section < DIRECTORY_BYTES / 4 && !used_before; section++)
			directory_write(directory, section, directory_read(DIRECTORY_PHYSICAL, section));
		space->used_before = true;
		generation = (generation + 1) & 0x3fffff;
		space->id = generation << 9 | i;
		return space;
	}
	return 0;
}

void space_set_fast_switch(struct space *space, u32 word)
{
	space->fast_switch = word;
	for (struct thread *thread = space->threads; thread; thread = thread->next_in_space) {
		thread->fast_switch = word;
		thread->pid = space->pid << 25;
	}
}

// One page of a space that will never run again. `linger`: its lines stay in the caches until the next full
// flush, and its frame is not used before. But a frame that others have stays in use, and they do not know of
// these lines: what is dirty of them is written back now.
static void destroy_page(struct mapping m, bool linger)
{
	u32 soft = m.table->soft[m.index], frame = frame_of(soft);
	if (!linger || soft & DEVICE) {
		remove(m);
		return;
	}
	if (frames[frame / PAGE_BYTES].count == 1) {
		unlink(m);
		frame_quarantine(frame);
	} else {
		if ((soft & (WRITABLE | COPY_ON_WRITE)) == WRITABLE)
			MAINTENANCE(PAGE_LINGERS_DATA, core->clean_and_invalidate_page_data(mapping_address(m)));
		unlink(m);
	}
	encode(m);
}

// False if an interrupt waits and something is left.
static bool destroy_table(volatile struct table *table, bool linger)
{
	for (u32 i = 0; i < TABLE_ENTRIES && table->present; i++) {
		if (!(table->soft[i] & PRESENT))
			continue;
		destroy_page((struct mapping){ table, i }, linger);
		if (interrupt_pending())
			return false;
	}
	if (linger)
		frame_quarantine(physical_of(table));
	else
		frame_free(physical_of(table));
	return true;
}

// A section that the space has given up stays with those who share its table, if there are any.
static void leave_table(struct space *space, u32 section)
{
	volatile struct table *table = table_at(directory_read(space->directory, section));
	if (table->sharers == 1)
		return;
	table_release(space, table);
	directory_write(space->directory, section, 0);
}

// Returns AGAIN when an interrupt waits and something is left; a dying space takes no other call. First its
// threads go, one by one: while there are some they run, but can have no new ones. Then it leaves what it
// shares with others, each section with its table at once: they go on writing there, and of such lines nobody
// would know when this space's pages are freed. Then it leaves the hardware; then its pages go.
int space_destroy(struct space *space)
{
	space->dying = true;
	while (space->threads) {
		thread_destroy(space->threads);
		if (interrupt_pending())
			return AGAIN;
	}
	if (!space->retired) {
		space->lines_linger |= scheme->lazy_destroy && scheme->in_cache(space);
		for (u32 section; scheme->leave_shared && (section = scheme->leave_shared(space));) {
			leave_table(space, section);
			if (interrupt_pending())
				return AGAIN;
		}
		space->retired = true;
		if (scheme->retire)
			scheme->retire(space);
	}
	for (; space->next_section < USER_LIMIT >> SECTION_SHIFT; space->next_section++) {
		u32 entry = directory_read(space->directory, space->next_section);
		if (entry) {
			if (!destroy_table(table_at(entry), space->lines_linger))
				return AGAIN;
			directory_write(space->directory, space->next_section, 0);
		}
		if (space->next_section % 64 == 63 && interrupt_pending()) {
			space->next_section++;
			return AGAIN;
		}
	}
	scheme->destroy(space);
	space->id = 0;
	return 0;
}

// Moves the low 32 MB of the space to slot 0: 32 entries of its directory.
void space_move(struct space *space)
{
	for (u32 i = 0; i < SLOT_BYTES >> SECTION_SHIFT; i++) {
		u32 from = space->pid << 5 | i;
		u32 entry = directory_read(space->directory, from);
		if (!entry)
			continue;
		volatile struct table *table = table_at(entry);
		table->section = i;
		directory_write(space->directory, i, entry);
		directory_write(space->directory, from, 0);
		for (u32 j = 0; j < TABLE_ENTRIES; j++)
			if ((table->soft[j] & (PRESENT | DEVICE)) == PRESENT)
				frame_reconsider(frame_of(table->soft[j]), false);
	}
	space->pid = 0;
	space_set_fast_switch(space, 0);
}

// All lines are invalidated, dirty ones written back first.
void flush_caches(const struct flush_names *names)
{
	counters[COUNT_FLUSHES]++;
	MAINTENANCE(names->data, core->clean_and_invalidate_data());
	MAINTENANCE(names->instructions, core->invalidate_instructions());
	MAINTENANCE(CACHE_EPOCH, cache_epoch++);
	quarantine_release();
}

void flush_translations(u32 maintenance)
{
	counters[COUNT_TLB_FLUSHES]++;
	MAINTENANCE(maintenance, core->invalidate_tlb());
}
