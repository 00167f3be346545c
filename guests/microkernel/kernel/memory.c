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
#include "space/space.h"

#define FRAMES (WINDOW_MEGABYTES * 256)
#define TABLE_ENTRIES 256
#define DIRECTORY_BYTES 0x4000
#define DIRECTORY_POOL ((WINDOW_MEGABYTES << 20) - SPACES * DIRECTORY_BYTES)
#define KERNEL_FRAMES_END (KERNEL_PHYSICAL + 0x100000)

struct space spaces[SPACES];
u32 cache_epoch = 1;

// One 4 KB frame holds a coarse table of 256 hardware entries (1 KB), what they mean, and the links of
// the lists of each frame's mappings.
struct table {
	u32 hardware[TABLE_ENTRIES];
	u32 soft[TABLE_ENTRIES];
	u32 next[TABLE_ENTRIES];  // the frame's next mapping: physical address of such a link, or 0
	u32 space;                // index of its space; for a shared table, of one of them
	u32 section;              // modified virtual address >> 20
	u32 present;              // entries in use
	u32 sharers;              // spaces that use it
	u32 pad[TABLE_ENTRIES - 4];
};
_Static_assert(sizeof(struct table) == PAGE_BYTES, "one frame");

// Soft entries: frame address and these bits.
enum { PRESENT = 1, WRITABLE = 2, COPY_ON_WRITE = 4, WRITTEN = 8, SHARED = 16, DEVICE = 32 };

enum { FRAME_UNCACHED = 1, FRAME_WRITABLE = 2, FRAME_SHARED = 4 };
static struct frame {
	u32 mappings;             // physical address of a table's link, or of the next free frame
	unsigned short count;
	unsigned short flags;
} frames[FRAMES];
static u32 free_frames, quarantine;
static u32 free_count; // in both lists

static void *window(u32 physical)
{
	return (void *)(physical + WINDOW);
}

static volatile struct table *table_at(u32 physical)
{
	return window(physical & ~(PAGE_BYTES - 1));
}

// ---- frames ------------------------------------------------------------------------------------
static void frame_to_free_list(u32 frame)
{
	struct frame *f = &frames[frame / PAGE_BYTES];
	f->mappings = free_frames;
	f->flags = 0;
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
	f->count = 0;
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
u32 directory_read(u32 directory, u32 section)
{
	return ((volatile u32 *)window(directory))[section];
}

void directory_write(u32 directory, u32 section, u32 entry)
{
	((volatile u32 *)window(directory))[section] = entry;
}

static u32 space_index(const struct space *space)
{
	return space - spaces;
}

// The table of an address, or 0.
static volatile struct table *table_of(struct space *space, u32 address)
{
	u32 entry = directory_read(space->directory, modified(space, address) >> 20);
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
	u32 section = modified(space, address) >> 20;
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
	return m.table->section << 20 | m.index << 12;
}

static struct space *mapping_space(struct mapping m)
{
	return &spaces[m.table->space];
}

static void encode(struct mapping m)
{
	u32 soft = m.table->soft[m.index], frame = soft & ~(PAGE_BYTES - 1), hardware = 0;
	if (soft & PRESENT) {
		bool writable = soft & WRITABLE && !(soft & COPY_ON_WRITE);
		if (scheme->counts_written && soft & SHARED && !(soft & WRITTEN))
			writable = false; // the first write faults and is counted
		hardware = frame | (writable ? 0xff0 : 0xaa0) | 2;
		bool device = soft & DEVICE;
		if (!device)
			hardware |= frames[frame / PAGE_BYTES].flags & FRAME_UNCACHED ? 4 : 12;
	}
	m.table->hardware[m.index] = hardware;
}

static void clean_mapping(struct mapping m)
{
	if (scheme->in_cache(mapping_space(m)))
		MAINTENANCE(PAGE_COPIED_CLEAN, core->clean_page(mapping_address(m)));
}

// The translation in the TLB, if any, is older than the entry just written.
static void forget_mapping(struct mapping m, u32 maintenance)
{
	if (scheme->in_tlb(mapping_space(m)))
		MAINTENANCE(maintenance, core->forget_translation(mapping_address(m)));
}

// The page at this address is another one, or none, from now on.
static void flush_mapping(struct mapping m)
{
	if (!scheme->in_cache(mapping_space(m)))
		return;
	counters[COUNT_PAGE_FLUSHES]++;
	MAINTENANCE(PAGE_GONE_DATA, core->flush_page(mapping_address(m)));
	MAINTENANCE(PAGE_GONE_INSTRUCTIONS, core->forget_page_instructions(mapping_address(m)));
}

// A space that has written shared pages, or pages above 32 MB, must be looked at on every switch.
static void counted(struct space *space)
{
	if (scheme->counts_written)
		MAINTENANCE(FCSE_TAG_COUNTED, space_set_tag(space, 0));
}

static void count_written(struct mapping m, int change)
{
	MAINTENANCE(FCSE_WRITTEN_SHARED, mapping_space(m)->written_shared += change);
	counted(mapping_space(m));
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
		count_written(m, -1);
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
	struct uses uses = { .many_mappings = f->count > 1 };
	struct mapping first = mapping_at(f->mappings);
	for (u32 at = f->mappings; at;) {
		struct mapping m = mapping_at(at);
		u32 soft = m.table->soft[m.index];
		uses.writable |= (soft & (WRITABLE | COPY_ON_WRITE)) == WRITABLE;
		uses.many_addresses |= mapping_address(m) != mapping_address(first);
		uses.many_mappings |= m.table->sharers > 1;
		for (u32 other = f->mappings; other != at && !uses.alias_in_space; other = *(volatile u32 *)window(other))
			uses.alias_in_space = mapping_space(mapping_at(other)) == mapping_space(m);
		at = m.table->next[m.index];
	}
	if (!uses.writable || !scheme->uncached(&uses))
		return;
	f->flags |= FRAME_UNCACHED;
	for (u32 at = f->mappings; at;) {
		struct mapping m = mapping_at(at);
		if (m.table->hardware[m.index]) {
			encode(m);
			forget_mapping(m, PAGE_TIGHTENED_TRANSLATION);
			if (scheme->in_cache(mapping_space(m))) {
				counters[COUNT_PAGE_FLUSHES]++;
				MAINTENANCE(PAGE_UNCACHED_DATA, core->flush_page(mapping_address(m)));
			}
		}
		at = m.table->next[m.index];
	}
}

// ---- tables that several spaces share ----------------------------------------------------------
// A whole section that is the same in several spaces at the same address may be one table, so that a
// scheme can give it one domain and the spaces one TLB entry for each page (the paper's section 3.2).
static void table_release(struct space *space, volatile struct table *table)
{
	u32 physical = physical_of(table);
	table->sharers--;
	for (u32 i = 0; i < SPACES && table->space == space_index(space); i++)
		if (spaces[i].id && &spaces[i] != space &&
		    (directory_read(spaces[i].directory, table->section) & ~(PAGE_BYTES - 1)) == physical)
			table->space = i;
}

// One of the spaces changes something: it gets a table of its own, as if it had always had one.
static volatile struct table *table_unshare(struct space *space, volatile struct table *shared)
{
	u32 address = shared->section << 20;
	table_release(space, shared);
	volatile struct table *own = table_create(space, address);
	if (!own) {
		shared->sharers++;
		return 0;
	}
	for (u32 i = 0; i < TABLE_ENTRIES; i++) {
		u32 soft = shared->soft[i], frame = soft & ~(PAGE_BYTES - 1);
		if (!(soft & PRESENT))
			continue;
		struct mapping m = { own, i };
		link(m, frame, soft & (PAGE_BYTES - 1));
		frame_reconsider(frame, soft & WRITABLE);
		encode(m);
	}
	return own;
}

static void table_attach(struct space *to, volatile struct table *table)
{
	table->sharers++;
	for (u32 i = 0; i < TABLE_ENTRIES; i++)
		if (table->soft[i] & PRESENT && !(table->soft[i] & DEVICE))
			frame_reconsider(table->soft[i] & ~(PAGE_BYTES - 1), table->soft[i] & WRITABLE);
	directory_write(to->directory, table->section, physical_of(table) | core->coarse_bits);
	scheme->directory_changed(to, table->section);
}

// The entry for a user address, its table made if need be; .table is 0 if the address is refused or
// there is no memory.
static struct mapping entry_for(struct space *space, u32 address)
{
	struct mapping m = { 0, index_of(address) };
	if (address >= USER_LIMIT || !scheme->admit(space, address))
		return m;
	m.table = table_of(space, address);
	if (m.table && m.table->sharers > 1)
		m.table = table_unshare(space, m.table);
	if (!m.table)
		m.table = table_create(space, address);
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

static void count_above(struct space *space, u32 address, int change)
{
	if (address < SLOT_BYTES)
		return;
	MAINTENANCE(FCSE_PAGES_ABOVE, space->pages_above += change);
	counted(space);
}

static void remove(struct space *space, u32 address, struct mapping m)
{
	u32 soft = m.table->soft[m.index], frame = soft & ~(PAGE_BYTES - 1);
	if (soft & DEVICE) {
		m.table->soft[m.index] = 0;
		m.table->present--;
		encode(m);
		forget_mapping(m, PAGE_GONE_TRANSLATION);
		return;
	}
	flush_mapping(m); // while it can still be translated
	unlink(m);
	encode(m);
	forget_mapping(m, PAGE_GONE_TRANSLATION);
	count_above(space, address, -1);
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
	struct mapping m = entry_for(space, address);
	if (!m.table)
		return ERROR_REFUSED;
	if (m.table->soft[m.index] & PRESENT) {
		frames[frame / PAGE_BYTES].count++; // it may be this very frame
		remove(space, address, m);
		frames[frame / PAGE_BYTES].count--;
	}
	link(m, frame, soft);
	count_above(space, address, 1);
	frame_reconsider(frame, soft & WRITABLE && !(soft & COPY_ON_WRITE));
	encode(m);
	return 0;
}

static u32 soft_of_rights(u32 rights)
{
	return rights & RIGHT_WRITE ? WRITABLE : 0;
}

int memory_map(struct space *space, u32 address, u32 pages, u32 rights)
{
	if (bad_range(address, pages))
		return ERROR_INVALID;
	for (; pages; pages--, address += PAGE_BYTES) {
		u32 frame = frame_zeroed();
		if (!frame)
			return ERROR_NO_MEMORY;
		int result = add(space, address, frame, soft_of_rights(rights));
		if (result < 0) {
			frame_free(frame);
			return result;
		}
	}
	return 0;
}

// Puts an image into fresh pages.
u32 memory_load(struct space *space, u32 address, const void *image, u32 bytes, u32 rights)
{
	const u32 *from = image;
	for (u32 done = 0; done < bytes; address += PAGE_BYTES) {
		u32 frame = frame_zeroed();
		if (!frame || add(space, address, frame, soft_of_rights(rights)) < 0)
			return 0;
		u32 *to = window(frame);
		for (u32 i = 0; i < PAGE_BYTES / 4 && done < bytes; i++, done += 4)
			*to++ = *from++;
	}
	return 1;
}

int memory_device(struct space *space, u32 address, u32 physical)
{
	if (bad_range(address, 1) || physical & (PAGE_BYTES - 1) || physical < (u32)WINDOW_MEGABYTES << 20)
		return ERROR_INVALID;
	struct mapping m = entry_for(space, address);
	if (!m.table)
		return ERROR_REFUSED;
	if (m.table->soft[m.index] & PRESENT)
		remove(space, address, m);
	m.table->soft[m.index] = physical | PRESENT | WRITABLE | DEVICE;
	m.table->present++;
	encode(m);
	return 0;
}

// The page is this mapping's alone from now on, writable.
static bool copy_now(struct mapping m)
{
	u32 soft = m.table->soft[m.index], old = soft & ~(PAGE_BYTES - 1);
	u32 bits = soft & (PAGE_BYTES - 1) & ~COPY_ON_WRITE;
	if (frames[old / PAGE_BYTES].count == 1) {
		m.table->soft[m.index] = old | bits;
		frames[old / PAGE_BYTES].flags |= FRAME_WRITABLE;
		encode(m);
		forget_mapping(m, PAGE_LOOSENED_TRANSLATION);
		return true;
	}
	u32 frame = frame_take();
	if (!frame)
		return false;
	// Memory is newer than any line of it: it was cleaned when it was copied, and read-only since.
	u32 *from = window(old), *to = window(frame);
	for (u32 i = 0; i < PAGE_BYTES / 4; i++)
		*to++ = *from++;
	flush_mapping(m);
	unlink(m);
	link(m, frame, bits);
	frames[frame / PAGE_BYTES].flags |= FRAME_WRITABLE;
	encode(m);
	forget_mapping(m, PAGE_GONE_TRANSLATION);
	return true;
}

static bool table_is_whole(u32 address, u32 pages)
{
	return !(address & 0xfffff) && pages == TABLE_ENTRIES;
}

int memory_share(struct space *from, u32 source, struct space *to, u32 address, u32 pages, u32 rights)
{
	if (bad_range(address, pages) || bad_range(source, pages))
		return ERROR_INVALID;
	bool whole = scheme->share_section && source == address && address >= 0x80000000 && from != to &&
		     table_is_whole(address, pages) && rights == (RIGHT_READ | RIGHT_WRITE) &&
		     !directory_read(to->directory, address >> 20);
	for (; pages; pages--, address += PAGE_BYTES, source += PAGE_BYTES) {
		struct mapping m = entry_find(from, source);
		if (!m.table)
			continue;
		u32 soft = m.table->soft[m.index], frame = soft & ~(PAGE_BYTES - 1);
		if (soft & DEVICE || (rights & RIGHT_WRITE && !(soft & WRITABLE)))
			return ERROR_INVALID;
		if (soft & WRITABLE) {
			// Both views are of one page from now on: it is nobody's copy.
			if (m.table->sharers > 1 && soft & COPY_ON_WRITE)
				m.table = table_unshare(from, m.table);
			if (!m.table || (soft & COPY_ON_WRITE && !copy_now(m)))
				return ERROR_NO_MEMORY;
			frame = m.table->soft[m.index] & ~(PAGE_BYTES - 1);
			frames[frame / PAGE_BYTES].flags |= FRAME_SHARED;
			clean_mapping(m);
			if (!(m.table->soft[m.index] & SHARED)) {
				m.table->soft[m.index] |= SHARED;
				encode(m);
				if (scheme->counts_written)
					forget_mapping(m, PAGE_TIGHTENED_TRANSLATION);
			}
			soft = soft_of_rights(rights) | SHARED;
		} else {
			soft = 0;
		}
		if (!whole) {
			int result = add(to, address, frame, soft);
			if (result < 0)
				return result;
		}
	}
	if (whole) {
		volatile struct table *table = table_of(from, source - PAGE_BYTES);
		if (table) {
			table_attach(to, table);
			scheme->share_section(from, to, table->section);
		}
	}
	return 0;
}

int memory_copy(struct space *from, u32 source, struct space *to, u32 address, u32 pages)
{
	if (bad_range(address, pages) || bad_range(source, pages))
		return ERROR_INVALID;
	for (; pages; pages--, address += PAGE_BYTES, source += PAGE_BYTES) {
		struct mapping m = entry_find(from, source);
		if (!m.table)
			continue;
		u32 soft = m.table->soft[m.index], frame = soft & ~(PAGE_BYTES - 1);
		if (soft & DEVICE)
			return ERROR_INVALID;
		if (frames[frame / PAGE_BYTES].flags & FRAME_SHARED) {
			// Others go on sharing it, so the copy cannot wait for a write.
			for (u32 at = frames[frame / PAGE_BYTES].mappings; at;) {
				struct mapping other = mapping_at(at);
				clean_mapping(other);
				at = other.table->next[other.index];
			}
			u32 copy = frame_take();
			if (!copy)
				return ERROR_NO_MEMORY;
			u32 *in = window(frame), *out = window(copy);
			for (u32 i = 0; i < PAGE_BYTES / 4; i++)
				*out++ = *in++;
			int result = add(to, address, copy, soft & WRITABLE);
			if (result < 0) {
				frame_free(copy);
				return result;
			}
			continue;
		}
		if (soft & WRITABLE && !(soft & COPY_ON_WRITE)) {
			m.table->soft[m.index] = soft |= COPY_ON_WRITE;
			frames[frame / PAGE_BYTES].flags &= ~FRAME_WRITABLE; // nobody else's is, or it were shared
			encode(m);
			forget_mapping(m, PAGE_TIGHTENED_TRANSLATION);
			clean_mapping(m);
		}
		int result = add(to, address, frame, soft & (WRITABLE | COPY_ON_WRITE));
		if (result < 0)
			return result;
	}
	return 0;
}

int memory_unmap(struct space *space, u32 address, u32 pages)
{
	if (bad_range(address, pages))
		return ERROR_INVALID;
	for (; pages; pages--, address += PAGE_BYTES) {
		struct mapping m = entry_find(space, address);
		if (m.table && m.table->sharers > 1)
			m.table = table_unshare(space, m.table);
		if (m.table)
			remove(space, address, m);
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
			MAINTENANCE(SYNCHRONISE_CLEAN, core->clean_page(mapping_address(other)));
			MAINTENANCE(SYNCHRONISE_INSTRUCTIONS, core->forget_page_instructions(mapping_address(other)));
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
	if (scheme->counts_written && (m.table->soft[m.index] & (SHARED | WRITTEN)) == SHARED) {
		m.table->soft[m.index] |= WRITTEN;
		counters[COUNT_WRITTEN_SHARED]++;
		count_written(m, 1);
		encode(m);
		forget_mapping(m, PAGE_LOOSENED_TRANSLATION);
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
		space->used_before = true;
		if (!used_before)
			memset32(window(directory), 0, DIRECTORY_BYTES);
		if (!scheme->create(space))
			return 0;
		// The kernel is in every directory.
		for (u32 section = USER_LIMIT >> 20; section < 4096 && !used_before; section++)
			directory_write(directory, section, directory_read(DIRECTORY_PHYSICAL, section));
		generation = (generation + 1) & 0x3fffff;
		space->id = (generation << 9 | i) & 0x7fffffff;
		return space;
	}
	return 0;
}

void space_set_tag(struct space *space, u32 tag)
{
	space->tag = tag;
	for (struct thread *thread = space->threads; thread; thread = thread->next_in_space) {
		thread->tag = tag;
		thread->pid = space->pid << 25;
	}
}

int space_destroy(struct space *space)
{
	while (space->threads)
		thread_destroy(space->threads);
	bool lazy = scheme->lazy_destroy && scheme->in_cache(space);
	for (u32 section = 0; section < USER_LIMIT >> 20; section++) {
		u32 entry = directory_read(space->directory, section);
		if (!entry)
			continue;
		volatile struct table *table = table_at(entry);
		u32 physical = physical_of(table);
		if (table->sharers > 1) {
			table_release(space, table);
		} else {
			for (u32 i = 0; i < TABLE_ENTRIES && table->present; i++) {
				u32 soft = table->soft[i], frame = soft & ~(PAGE_BYTES - 1);
				struct mapping m = { table, i };
				if (!(soft & PRESENT))
					continue;
				if (!lazy || soft & DEVICE) {
					remove(space, section >> 5 == space->pid ? 0 : section << 20, m);
					continue;
				}
				unlink(m);
				encode(m);
				if (!frames[frame / PAGE_BYTES].count)
					frame_quarantine(frame);
			}
			if (lazy)
				frame_quarantine(physical);
			else
				frame_free(physical);
		}
		directory_write(space->directory, section, 0);
	}
	scheme->destroy(space);
	space->id = 0;
	if (cpu.active == space)
		cpu.active = 0;
	return 0;
}

// Moves the low 32 MB of the space to another slot: 32 entries of its directory.
void space_move(struct space *space, u32 pid)
{
	for (u32 i = 0; i < SLOT_BYTES >> 20; i++) {
		u32 from = space->pid << 5 | i, to = pid << 5 | i;
		u32 entry = directory_read(space->directory, from);
		if (!entry)
			continue;
		volatile struct table *table = table_at(entry);
		table->section = to;
		directory_write(space->directory, to, entry);
		directory_write(space->directory, from, 0);
		for (u32 j = 0; j < TABLE_ENTRIES; j++)
			if ((table->soft[j] & (PRESENT | DEVICE)) == PRESENT)
				frame_reconsider(table->soft[j] & ~(PAGE_BYTES - 1), false);
	}
	space->pid = pid;
	space_set_tag(space, 0);
}

// All lines are forgotten, dirty ones written back. The two operations are numbered one after the
// other, for `mutant=`.
void flush_caches(u32 maintenance)
{
	counters[COUNT_FLUSHES]++;
	MAINTENANCE(maintenance, core->clean_data());
	MAINTENANCE(maintenance + 1, core->forget_instructions());
	MAINTENANCE(CACHE_EPOCH, cache_epoch++);
	quarantine_release();
}

void flush_translations(u32 maintenance)
{
	counters[COUNT_TLB_FLUSHES]++;
	MAINTENANCE(maintenance, core->forget_translations());
}
