// Intel XScale as in the IXP425 (XScale Core Developer's Manual, chapters 3, 4, 6, 7).
#include "core.h"

// "Line allocate" (7.2.8) gives a line of 32 KB an address without reading memory, and writes back what
// it evicts. The addresses must be used for nothing else. One piece of assembly: see strongarm.c.
LINE_ALIGNED static void clean_and_invalidate_data(void)
{
	u32 at = EVICTION, lines = 1024;
	__asm__ volatile("1:	mcr	p15, 0, %0, c7, c2, 5\n"
			 "	add	%0, %0, #32\n"
			 "	subs	%1, %1, #1\n"
			 "	bne	1b\n"
			 "	mcr	p15, 0, %1, c7, c10, 4\n"
			 "	mcr	p15, 0, %1, c7, c6, 0"
			 : "+r"(at), "+r"(lines)::"memory", "cc");
	core_wait_coprocessor();
}

// Also empties the branch target buffer, which holds virtual addresses too.
LINE_ALIGNED static void invalidate_instructions(void)
{
	__asm__ volatile("mcr p15, 0, %0, c7, c5, 0" ::"r"(0) : "memory");
	core_wait_coprocessor();
}

static void clean_page_data(u32 address)
{
	address &= ~(PAGE_BYTES - 1);
	for (u32 end = address + PAGE_BYTES; address != end; address += LINE_BYTES)
		__asm__ volatile("mcr p15, 0, %0, c7, c10, 1" ::"r"(address) : "memory");
	core_drain();
}

static void clean_and_invalidate_page_data(u32 address)
{
	address &= ~(PAGE_BYTES - 1);
	for (u32 end = address + PAGE_BYTES; address != end; address += LINE_BYTES)
		__asm__ volatile("mcr p15, 0, %0, c7, c10, 1\n\tmcr p15, 0, %0, c7, c6, 1" ::"r"(address) : "memory");
	core_drain();
}

static void invalidate_page_instructions(u32 address)
{
	address &= ~(PAGE_BYTES - 1);
	for (u32 end = address + PAGE_BYTES; address != end; address += LINE_BYTES)
		__asm__ volatile("mcr p15, 0, %0, c7, c5, 1" ::"r"(address) : "memory");
	__asm__ volatile("mcr p15, 0, %0, c7, c5, 6" ::"r"(0) : "memory");
	core_wait_coprocessor();
}

static void invalidate_tlb(void)
{
	__asm__ volatile("mcr p15, 0, %0, c8, c7, 0" ::"r"(0) : "memory");
	core_wait_coprocessor();
}

static void invalidate_tlb_entry(u32 address)
{
	__asm__ volatile("mcr p15, 0, %0, c8, c6, 1\n\tmcr p15, 0, %0, c8, c5, 1" ::"r"(address) : "memory");
	core_wait_coprocessor();
}

static void wait(void)
{
	__asm__ volatile("mcr p14, 0, %0, c7, c0, 0" ::"r"(1) : "memory");
}

const struct core core_xscale = {
	.name = "xscale",
	.id = 0x69050000,
	.id_mask = 0xffff0000,
	.pids = 128,
	.coarse_bits = 0x01, // bit 4 is not the ARM architecture's "must be one" here (3.2.2.1)
	.section_bits = 0x02,
	.clean_and_invalidate_data = clean_and_invalidate_data,
	.invalidate_instructions = invalidate_instructions,
	.clean_page_data = clean_page_data,
	.clean_and_invalidate_page_data = clean_and_invalidate_page_data,
	.invalidate_page_instructions = invalidate_page_instructions,
	.invalidate_tlb = invalidate_tlb,
	.invalidate_tlb_entry = invalidate_tlb_entry,
	.wait = wait,
};
