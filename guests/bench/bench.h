// The programs that `run=` names, and what they share.
//
// Lines that begin with "= " are measurements: name, then key=value. All other lines are the same on
// every machine and under every scheme.
#ifndef BENCH_H
#define BENCH_H

#include "system.h"

#define PRIORITY 32
#define PAGES(bytes) (((bytes) + PAGE_BYTES - 1) / PAGE_BYTES)
#define READ_WRITE (RIGHT_READ | RIGHT_WRITE)
#define SECTION_BYTES 0x00100000
#define SECTION_PAGES PAGES(SECTION_BYTES)
// Where programs put pages: at an address that a scheme may relocate, and at one that none does.
#define LOW_AT 0x00040000
#define FIXED_AT 0x90000000
#define SLOT_END 0x02000000 // the first address that is never relocated

// Returns the number of errors.
typedef u32 program(void);
program pingpong, extreme, ring, storm, periodic, events, isolation, random_operations, recycled, stale, switches,
	attack, fuzz, library, calls;
// attacks_memory.c, attacks_thumb.c and attacks_time.c, by their names in attacks.c
program regrown, many_tables, interrupted_share, thumb_calls, move_latency, sleep_trap, slices;

extern struct process processes[512];
void start_or_stop(u32 index, void (*program)(u32), u32 argument, u32 priority);

// agent.c: a process that obeys the root. Its program is agent_loop() with a function that carries out an order
// (command, address, further words) and returns its result.
void agent_loop(u32 root, u32 (*obey)(struct message *order));
void agent_start(struct process *process, void (*agent)(u32 root));
// True if the command ended without a fault; after one the agent is started again.
bool agent_ask(struct process *process, void (*agent)(u32 root), u32 command, u32 address, u32 value, u32 *result);

// Cycles and misses from lap_start() to lap_end(), printed with a "= " line by the caller.
struct lap {
	uint64_t cycles;
	u32 instructions, itlb, dtlb, icache, dcache, write_backs;
};
void lap_start(struct lap *lap);
void lap_end(struct lap *lap);
void lap_print(const struct lap *lap, u32 per);
void counters_print(void); // of the kernel, to the end of a "= " line
// How often something has been counted by the kernel since.
void count_from_here(void);
u32 counted(enum counter which);

#endif
