// System calls and a few helpers for user programs.
#ifndef SYSTEM_H
#define SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

typedef uint32_t u32;

#define PAGE_BYTES 4096

struct message {
	u32 word[6];
};

// The message registers stay registers: nothing of a short message passes through memory.
static inline u32 ipc(u32 to, u32 from, struct message *message)
{
	register u32 r0 __asm__("r0") = to;
	register u32 r1 __asm__("r1") = from;
	register u32 r4 __asm__("r4") = message->word[0];
	register u32 r5 __asm__("r5") = message->word[1];
	register u32 r6 __asm__("r6") = message->word[2];
	register u32 r7 __asm__("r7") = message->word[3];
	register u32 r8 __asm__("r8") = message->word[4];
	register u32 r9 __asm__("r9") = message->word[5];
	__asm__ volatile("mov r12, #0\n\tswi 0"
			 : "+r"(r0), "+r"(r1), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r7), "+r"(r8), "+r"(r9)
			 :
			 : "r2", "r3", "r10", "r11", "r12", "memory", "cc");
	*message = (struct message){ { r4, r5, r6, r7, r8, r9 } };
	return r0;
}

static inline u32 ipc_call(u32 to, struct message *message)
{
	return ipc(to, to, message);
}

static inline u32 ipc_send(u32 to, struct message *message)
{
	return ipc(to, 0, message);
}

static inline u32 ipc_receive(u32 from, struct message *message)
{
	return ipc(0, from, message);
}

static inline u32 ipc_reply_and_wait(u32 to, struct message *message)
{
	return ipc(to, ANY, message);
}

static inline u32 system_call(u32 call, u32 a, u32 b, u32 c, u32 d, u32 e, u32 f)
{
	register u32 r0 __asm__("r0") = a;
	register u32 r1 __asm__("r1") = b;
	register u32 r2 __asm__("r2") = c;
	register u32 r4 __asm__("r4") = d;
	register u32 r5 __asm__("r5") = e;
	register u32 r6 __asm__("r6") = f;
	register u32 r12 __asm__("r12") = call;
	__asm__ volatile("swi 0" : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r4), "+r"(r5) : "r"(r6), "r"(r12) : "r3", "memory", "cc");
	return r0;
}

static inline u32 space_create(void) { return system_call(CALL_SPACE_CREATE, 0, 0, 0, 0, 0, 0); }
static inline int space_destroy(u32 space) { return system_call(CALL_SPACE_DESTROY, space, 0, 0, 0, 0, 0); }
static inline int map(u32 space, u32 address, u32 pages, u32 rights) { return system_call(CALL_MAP, space, address, pages, rights, 0, 0); }
static inline int unmap(u32 space, u32 address, u32 pages) { return system_call(CALL_UNMAP, space, address, pages, 0, 0, 0); }
static inline int share(u32 from, u32 source, u32 to, u32 address, u32 pages, u32 rights) { return system_call(CALL_SHARE, from, source, to, address, pages, rights); }
static inline int copy(u32 from, u32 source, u32 to, u32 address, u32 pages) { return system_call(CALL_COPY, from, source, to, address, pages, 0); }
static inline int map_device(u32 space, u32 address, u32 physical) { return system_call(CALL_DEVICE, space, address, physical, 0, 0, 0); }
static inline u32 thread_create(u32 space, u32 pc, u32 sp, u32 argument, u32 priority, u32 pager) { return system_call(CALL_THREAD_CREATE, space, pc, sp, argument, priority, pager); }
static inline int thread_destroy(u32 thread) { return system_call(CALL_THREAD_DESTROY, thread, 0, 0, 0, 0, 0); }
static inline void yield(void) { system_call(CALL_YIELD, 0, 0, 0, 0, 0, 0); }
static inline u32 sleep_until(u32 time) { return system_call(CALL_SLEEP, time, 0, 0, 0, 0, 0); }
static inline u32 clock_microseconds(void) { return system_call(CALL_CLOCK, 0, 0, 0, 0, 0, 0); }
static inline void machine_exit(u32 status) { system_call(CALL_EXIT, status, 0, 0, 0, 0, 0); }
static inline u32 free_frames(void) { return system_call(CALL_FREE_FRAMES, 0, 0, 0, 0, 0, 0); }
static inline u32 counter(enum counter which) { return system_call(CALL_COUNTER, which, 0, 0, 0, 0, 0); }
static inline u32 self(void) { return system_call(CALL_SELF, 0, 0, 0, 0, 0, 0); }
static inline void synchronise(u32 address) { system_call(CALL_SYNCHRONISE, address, 0, 0, 0, 0, 0); }
static inline bool is_error(u32 result) { return (int)result < 0 && (int)result > -16; }

// system.c
void print(const char *format, ...); // %u %x %s, %U: 64 bits
bool option(const char *name, const char *value);
// Ends the machine with status 2 unless each "name=value" on the command line is in one of these lists: as a name
// or with its value, a space behind each.
void options_allow(const char *list, const char *further);
u32 option_number(const char *name, u32 otherwise);
u32 random_next(u32 *state);

// A program in a space of its own: it shares the text, gets a copy of the data as they are now, and a
// stack. Faults come to `pager` (0: nobody).
struct process {
	u32 space, thread;
};
bool process_start(struct process *process, void (*program)(u32), u32 argument, u32 priority, u32 pager);
void process_end(struct process *process);

// The instrumentation device of the board (docs/board.md), mapped where lab_start() puts it; reads zero on QEMU.
enum lab {
	LAB_CYCLES = 2,
	LAB_INSTRUCTIONS = 4,
	LAB_PHASE = 6,
	LAB_EVENT = 8,
	LAB_EVENT_BEGIN = 9,
	LAB_EVENT_END = 10,
	LAB_TEXT = 11,
	LAB_NAME_PHASE = 12,
	LAB_NAME_EVENT = 13,
	LAB_CLOCK_HZ = 16,
	LAB_CHECKER_REPORTS = 17,
	LAB_ITLB_MISSES = 20,
	LAB_DTLB_MISSES = 21,
	LAB_ICACHE_MISSES = 22,
	LAB_DCACHE_MISSES = 23,
	LAB_WRITE_BACKS = 24,
};
#define LAB ((volatile u32 *)0x000f0000)
void lab_start(u32 space);
static inline uint64_t lab_cycles(void)
{
	u32 low = LAB[LAB_CYCLES];
	return (uint64_t)LAB[LAB_CYCLES + 1] << 32 | low;
}
void lab_name(enum lab what, u32 number, const char *name);

#endif
