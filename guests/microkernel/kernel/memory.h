// Frames and second-level tables: what memory.c keeps, and invariants.c checks.
#ifndef MEMORY_H
#define MEMORY_H

#include "core/core.h"
#include "space/space.h"

#define FRAMES (WINDOW_MEGABYTES * 256)
#define TABLE_ENTRIES 256
#define MAX_MAPPINGS 1024 // of one frame: its list is searched with interrupts off
#define DIRECTORY_POOL ((WINDOW_MEGABYTES << 20) - SPACES * DIRECTORY_BYTES)
#define KERNEL_FRAMES_END (KERNEL_PHYSICAL + 0x100000)

// One 4 KB frame holds a coarse table of 256 hardware entries (1 KB), what they mean, and the links of
// the lists of each frame's mappings.
struct table {
	u32 hardware[TABLE_ENTRIES];
	u32 soft[TABLE_ENTRIES];
	u32 next[TABLE_ENTRIES];  // the frame's next mapping: physical address of such a link, or 0
	u32 space;                // index of its space; for a shared table, of one of them
	u32 section;              // modified virtual address >> SECTION_SHIFT
	u32 present;              // entries in use
	u32 sharers;              // spaces that use it
	u32 pad[TABLE_ENTRIES - 4];
};
_Static_assert(sizeof(struct table) == PAGE_BYTES, "one frame");

// Software page-table entries: frame address and these bits.
enum { PRESENT = 1, WRITABLE = 2, COPY_ON_WRITE = 4, WRITTEN = 8, SHARED = 16, DEVICE = 32 };

enum { FRAME_UNCACHED = 1, FRAME_WRITABLE = 2, FRAME_SHARED = 4 };
struct frame {
	u32 mappings;             // physical address of a table's link, or of the next free frame
	unsigned short count;
	unsigned short flags;
};
extern struct frame frames[];
extern u32 free_frames, quarantine, free_count;

static inline volatile struct table *table_at(u32 physical)
{
	return window(physical & ~(PAGE_BYTES - 1));
}

u32 memory_encoding(u32 soft);

#endif
