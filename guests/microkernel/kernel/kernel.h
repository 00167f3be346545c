// The kernel's records and what each file offers.
#ifndef KERNEL_H
#define KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../user/abi.h"
#include "descriptors.h"
#include "layout.h"

typedef uint32_t u32;

struct space;

enum thread_state {
	THREAD_FREE,
	THREAD_READY,          // runs, is queued to run, or receives (waits_for is not 0)
	THREAD_SENDING,        // in the list of senders of its partner
	THREAD_SENDING_FAULT,  // the same with a fault message to its pager
	THREAD_FAULTED,        // until its pager replies
	THREAD_SLEEPING,
};

struct thread {
	// The hot line; see layout.h.
	u32 id;
	u32 waits_for;          // the partner it would receive from, ANY, or 0 when it is not receiving
	u32 fast_switch;        // what the scheme's fast path loads, DACR or table base; 0: use the general path
	u32 pid;                // the PID register's value
	u32 sp, lr;
	u32 pc;                 // bit 0: it waits in Thumb state
	struct thread *senders; // who waits to send to it, first come first served
	// The rest of the user's registers, valid when it did not block in the fast path.
	u32 r[13];
	u32 cpsr;
	struct space *space;
	struct thread *next_in_space; // in the same line as its space: both are used when a domain changes hands
	enum thread_state state;
	struct thread *next;          // in the ready queue of its priority, the sleepers, a list of senders or the free
	u32 sends_to;           // while sending: to whom
	u32 then_from;          // and whom it will receive from
	u32 pager;              // who gets its faults
	u32 wakes_at;           // while sleeping
	u32 generation;
	u32 fault[3];           // kind, address, pc
	u32 spare[6];
};
_Static_assert(sizeof(struct thread) == RECORD_BYTES, "the fast path computes with RECORD_BYTES");
_Static_assert(offsetof(struct thread, senders) == THREAD_SENDERS, "layout.h");
_Static_assert(offsetof(struct thread, cpsr) == THREAD_CPSR, "layout.h");

struct cpu {
	u32 zero[2];
	struct thread *current;  // the thread that runs; it is in no queue
	u32 ready_priority;      // of the best thread in the ready queues, as in an id; 0 if all are empty
	u32 dirty;               // FASS: domains enabled since caches and TLB were last flushed, as a DACR
	struct space *active;    // whose mappings the hardware uses; kept by C only, see enter()
	void (*clean_and_invalidate_data)(void); // of the core, for the flushing fast path
	void (*invalidate_instructions)(void);
	u32 fast_flushes;        // by that path
	u32 spare[7];
	u32 scratch[8];          // of an exception on its way to supervisor mode
	u32 pad[16];
};
_Static_assert(sizeof(struct cpu) == RECORD_BYTES, "it takes the place of a thread");
_Static_assert(offsetof(struct cpu, scratch) == CPU_SCRATCH, "layout.h");
_Static_assert(offsetof(struct cpu, fast_flushes) == CPU_FAST_FLUSHES, "layout.h");

extern struct cpu cpu;
extern struct thread threads[THREADS]; // threads[0] is the processor's record

// main.c
extern u32 disabled_maintenance;
bool option(const char *name, const char *value);
extern char command_line[256];
void panic(const char *why, u32 value) __attribute__((noreturn));
void memset32(void *at, u32 value, u32 bytes);

// A maintenance operation or a dirty-bit update, with the name by which `mutant=` disables it.
// docs/microkernel-mutants.md is the table of what happens then.
static inline bool enabled(u32 maintenance)
{
	return disabled_maintenance != maintenance;
}
#define MAINTENANCE(name, operation)                                                               \
	do {                                                                                       \
		if (enabled(name))                                                                 \
			operation;                                                                 \
	} while (0)

// device.c
void device_start(void);
void console_write(char c);
void console_print(const char *text);
void console_hexadecimal(u32 value);
u32 clock_now(void);
void timer_set(u32 microseconds);
bool timer_acknowledge(void);
bool interrupt_pending(void);
void machine_exit(u32 status) __attribute__((noreturn));
void command_line_read(char *buffer, u32 size);

// memory.c
struct space *space_create(void);
int space_destroy(struct space *space);
struct space *space_find(u32 id);
#define AGAIN 1 // a call's result: it was interrupted, and shall be made again
int memory_map(struct space *space, u32 *address, u32 *pages, u32 rights);
int memory_device(struct space *space, u32 address, u32 physical);
int memory_share(struct space *from, u32 *source, struct space *to, u32 *address, u32 *pages, u32 rights);
int memory_copy(struct space *from, u32 *source, struct space *to, u32 *address, u32 *pages);
void memory_synchronise(struct space *space, u32 address);
int memory_unmap(struct space *space, u32 *address, u32 *pages);
bool memory_fault(struct space *space, u32 address);
void memory_start(void);
bool memory_load(struct space *space, u32 address, const void *image, u32 pages, u32 rights);
u32 memory_free_frames(void);

// thread.c
struct ready_queue {
	struct thread *first, *last;
};
extern struct ready_queue ready[];
extern struct thread *sleepers, *free_threads;
struct thread *thread_create(struct space *space, u32 pc, u32 sp, u32 argument, u32 priority, u32 pager);
void thread_destroy(struct thread *thread);
struct thread *thread_find(u32 id);
u32 thread_priority(const struct thread *thread);
void thread_ready(struct thread *thread);
void thread_yield(void);
void thread_sleep_until(u32 time);
void thread_tick(void);
void schedule(void);
void thread_start(void);
void core_idle(void);

// ipc.c
void ipc(struct thread *from, u32 to, u32 receive_from);
void ipc_fault(struct thread *thread, u32 kind, u32 address);
void ipc_withdraw(struct thread *sender);
void ipc_gone(struct thread *dead, u32 id);

// invariants.c
extern u32 invariants_named; // the space that a call names: its result takes the register
void invariants_check(const u32 *call); // the caller's registers

// entry.S
void resume(void) __attribute__((noreturn));

#endif
