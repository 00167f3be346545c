// The interface between the kernel and a scheme of switching address spaces. docs/add-a-scheme.md
// tells how to write another one.
#ifndef SPACE_H
#define SPACE_H

#include "../kernel.h"

#define RECENT_SECTIONS 4

// What FASS keeps of a space; its DACR is fast_switch.
struct fass_space {
	unsigned short recent[RECENT_SECTIONS]; // sections that it used lately, each plus 1; 0: none
	u32 domain;  // 0: none
	u32 regions; // one bit for each shared region that it is attached to
};

// What both modes of FCSE keep of a space.
struct fcse_space {
	u32 epoch;          // of the caches when it last ran
	u32 pages_above;    // pages mapped at or above 32 MB
	u32 written_shared; // shared pages that it has written to since they were shared
};

// What is used when a domain changes hands is the first line, and what changes then is its second half.
struct space {
	u32 directory;        // physical address of its page directory, indexed by modified virtual address
	struct thread *threads;
	union {
		struct fass_space fass;
		struct fcse_space fcse;
	};
	u32 fast_switch;      // copied to its threads: see struct thread
	u32 pid;              // the number of its 32 MB slot; 0 = no relocation
	u32 id;               // 0: free
	bool used_before;     // its directory's memory holds the kernel's entries already
	bool dying;           // it is being destroyed, with preemptions in between:
	bool retired;         // its threads are gone, and it from the hardware,
	bool lines_linger;    // but lines of its pages may still be cached,
	u32 next_section;     // and the tables below this section are gone
	u32 seen;             // by which search for its mappings, in memory.c
} __attribute__((aligned(32)));

// How a frame is mapped, summed over its mappings, when one is added.
struct uses {
	bool writable;        // by at least one of them
	bool many_addresses;  // at more than one modified virtual address
	bool alias_in_space;  // at two addresses of one space
	bool many_mappings;
};

struct scheme {
	const char *name;
	// After the MMU is on and before there is any space. 0: nothing to do.
	void (*start)(void);
	// A new space: choose its PID, or refuse by returning false.
	bool (*create)(struct space *space);
	// The space will never run again; its pages are still there. 0: nothing to do.
	void (*retire)(struct space *space);
	// How many spaces have this PID, by the scheme's records; for invariants.c. 0: it gives none.
	u32 (*pid_users)(u32 pid);
	// The pages of a space are gone, the record will be used again.
	void (*destroy)(struct space *space);
	// Make the mappings of `next` the current ones; `previous` is 0 at the start, and where the scheme has set cpu.active to 0.
	// Sets next->fast_switch if the next switch to it may be made by the scheme's fast path.
	void (*switch_to)(struct space *previous, struct space *next);
	// The hardware refused an access. True if the scheme's own tables were the reason, and the
	// access shall be made again.
	bool (*fault)(struct space *space, u32 modified_address);
	// May a page be mapped at this address? May move the space to another slot first.
	bool (*admit)(struct space *space, u32 address);
	// Must the frame be uncached, because the scheme cannot keep its copies apart?
	bool (*uncached)(const struct uses *uses);
	// May lines or TLB entries of this space be in the hardware?
	bool (*in_cache)(struct space *space);
	bool (*in_tlb)(struct space *space);
	// The first-level entry of a section of the space was set.
	void (*directory_changed)(struct space *space, u32 section);
	// True if the frames of a destroyed space wait for the next full flush instead of being flushed.
	bool lazy_destroy;
	// The number of pages at or above 32 MB changed. 0: the scheme does not count them.
	void (*count_above)(struct space *space, int change);
	// The number of shared pages that the space has written changed; pages shared for writing stay
	// read-only until written, to count who has written. 0: the scheme does not count them.
	void (*count_written)(struct space *space, int change);
	// The supervisor call vector's target: enter_general, or a fast path of the scheme's own.
	void (*fast_path)(void);
	// The section becomes one table of both spaces, unless this returns false. 0: the scheme wants no
	// such tables.
	bool (*share_section)(struct space *from, struct space *to, u32 section);
	// A dying space gives up one of the sections that it shares so, which is returned, or 0 if there is none;
	// the caller gives up the table. 0: as above.
	u32 (*leave_shared)(struct space *space);
	// Flush everything, when memory runs out while frames wait for it (lazy_destroy).
	void (*flush)(void);
};

extern const struct scheme *scheme;
extern const struct scheme scheme_flush, scheme_fass, scheme_fass_shared, scheme_fcse_guaranteed,
	scheme_fcse_best_effort;

extern struct space spaces[SPACES];

// memory.c
u32 pid_least_used(const u32 *users, u32 pids);

extern u32 counters[COUNTERS];
extern u32 cache_epoch; // advances at every full flush

// The general path of the supervisor call, and the fast ones (entry.S).
void enter_general(void);
void enter_flush(void);
void enter_fass(void);
void enter_fcse(void);

static inline u32 modified(const struct space *space, u32 address)
{
	return address < SLOT_BYTES ? address | space->pid << 25 : address;
}

// The names of the two operations of a full flush of the caches in maintenance.h.
struct flush_names {
	u32 data, instructions;
};
#define FLUSH_NAMES(prefix) (&(const struct flush_names){ prefix##_DATA, prefix##_INSTRUCTIONS })

void space_set_fast_switch(struct space *space, u32 word);
void flush_caches(const struct flush_names *names);
void flush_translations(u32 maintenance);
void quarantine_release(void);
void space_move(struct space *space);

// Page tables and page contents are only touched through the window.
static inline void *window(u32 physical)
{
	return (void *)(physical + WINDOW);
}

static inline u32 directory_read(u32 directory, u32 section)
{
	return ((volatile u32 *)window(directory))[section];
}

static inline void directory_write(u32 directory, u32 section, u32 entry)
{
	((volatile u32 *)window(directory))[section] = entry;
}

#endif
