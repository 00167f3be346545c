// System calls: the number is in r12, arguments in r0-r2 and r4-r9, the result in r0. r1-r3 are lost, and
// r4 and r5 in calls on pages, which interrupts may divide: they say then what is left to do.
//
// IPC (number 0): r0 = whom to send to (0: nobody), r1 = whom to receive from then (0: nobody; ANY).
// The message is r4-r9, in and out; the result is the sender's id or a negative error.
// r1-r3, r10-r12 and the condition flags are lost: who has waited has the sender's flags afterwards, or all clear.
#ifndef ABI_H
#define ABI_H

#define ANY 0xffffffff

enum call {
	CALL_IPC,
	CALL_SPACE_CREATE,   // () -> space
	CALL_SPACE_DESTROY,  // (space)
	CALL_MAP,            // (space, address, pages, r4 rights): fresh zeroed pages
	CALL_SHARE,          // (from, source, to, r4 address, r5 pages, r6 rights)
	CALL_COPY,           // (from, source, to, r4 address, r5 pages): copy on write
	CALL_UNMAP,          // (space, address, pages)
	CALL_DEVICE,         // (space, address, physical): one uncached page
	CALL_THREAD_CREATE,  // (space, pc, sp, r4 argument, r5 priority, r6 pager) -> thread
	CALL_THREAD_DESTROY, // (thread)
	CALL_YIELD,
	CALL_SLEEP,          // (until this time of the clock)
	CALL_CLOCK,          // () -> microseconds
	CALL_PRINT,          // (character)
	CALL_EXIT,           // (status): ends the machine
	CALL_FREE_FRAMES,    // () -> frames
	CALL_COUNTER,        // (which) -> one of the scheme's event counters
	CALL_SELF,           // () -> thread
	CALL_OPTION,         // (index) -> a character of the command line
	CALL_SYNCHRONISE,    // (address): make instructions just written to this page executable
	CALLS
};

// Space 0 in a call is the caller's own.

enum rights { RIGHT_READ = 1, RIGHT_WRITE = 2 };

// The first word of a fault message; then address, pc.
enum fault { FAULT_DATA = 0x100, FAULT_FETCH, FAULT_UNDEFINED };

enum error { ERROR_INVALID = -1, ERROR_NO_MEMORY = -2, ERROR_REFUSED = -3, ERROR_NO_THREAD = -4 };

enum counter {
	COUNT_SWITCHES,         // of address spaces, by the general path
	COUNT_FLUSHES,          // of all caches and the TLB
	COUNT_TLB_FLUSHES,      // of the TLB alone
	COUNT_COLLISIONS,       // FASS: a slot of the caching page directory had another owner
	COUNT_FILLS,            // FASS: the slot was empty
	COUNT_RECYCLED_DIRTY,   // FASS: domains taken from a space, with a flush
	COUNT_RECYCLED_CLEAN,   // and without
	COUNT_GROWN,            // FCSE: spaces moved to slot 0
	COUNT_WRITTEN_SHARED,   // FCSE: first writes to shared pages
	COUNT_PAGE_FLUSHES,     // single pages flushed from the caches
	COUNT_CALLS,            // system calls by the general path
	COUNTERS
};

#endif
