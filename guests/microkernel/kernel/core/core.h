// What the cores do differently: cache and TLB maintenance, and waiting for an interrupt.
#ifndef CORE_H
#define CORE_H

#include "../kernel.h"

#define LINE_BYTES 32
#define PAGE_BYTES 4096
#define LINE_ALIGNED __attribute__((aligned(LINE_BYTES))) // no more lines than need be: it runs after a flush

struct core {
	const char *name;
	u32 id, id_mask;              // CP15 main ID
	u32 pids;                     // values of the PID register
	u32 coarse_bits;              // bits of a first-level descriptor of a coarse table, without domain
	u32 section_bits;             // and of a section
	void (*clean_and_invalidate_data)(void);     // write dirty lines back and forget all data lines
	void (*invalidate_instructions)(void);
	void (*clean_page_data)(u32 address);              // write back one page's dirty lines; they stay valid
	void (*clean_and_invalidate_page_data)(u32 address);              // write back and forget one page's data lines
	void (*invalidate_page_instructions)(u32 address);
	void (*invalidate_tlb)(void);
	void (*invalidate_tlb_entry)(u32 address);
	void (*wait)(void);           // for an interrupt
};

extern const struct core core_strongarm, core_xscale, core_arm920t, core_arm926;
extern const struct core *core;

void core_find(void);

// A write to CP15 takes effect a few instructions later on some cores (XScale Core Developer's
// Manual, 2.3.3: read any CP15 register, use the result, branch to the next instruction).
static inline void core_wait_coprocessor(void)
{
	u32 scratch;
	__asm__ volatile("mrc p15, 0, %0, c2, c0, 0\n\tmov %0, %0\n\tsub pc, pc, #4" : "=r"(scratch)::"memory");
}

// The walker reads memory, and no core lets it look into the write buffer.
static inline void core_drain(void)
{
	__asm__ volatile("mcr p15, 0, %0, c7, c10, 4" ::"r"(0) : "memory");
}

static inline u32 core_fault_status(void)
{
	u32 status;
	__asm__ volatile("mrc p15, 0, %0, c5, c0, 0" : "=r"(status));
	return status;
}

static inline u32 core_fault_address(void)
{
	u32 address;
	__asm__ volatile("mrc p15, 0, %0, c6, c0, 0" : "=r"(address));
	return address;
}

static inline void core_set_directory(u32 physical)
{
	__asm__ volatile("mcr p15, 0, %0, c2, c0, 0" ::"r"(physical) : "memory");
	core_wait_coprocessor();
}

static inline void core_set_domains(u32 access)
{
	__asm__ volatile("mcr p15, 0, %0, c3, c0, 0" ::"r"(access) : "memory");
	core_wait_coprocessor();
}

static inline u32 core_domains(void)
{
	u32 access;
	__asm__ volatile("mrc p15, 0, %0, c3, c0, 0" : "=r"(access));
	return access;
}

static inline void core_set_pid(u32 pid)
{
	__asm__ volatile("mcr p15, 0, %0, c13, c0, 0" ::"r"(pid << 25) : "memory");
	core_wait_coprocessor();
}

#endif
