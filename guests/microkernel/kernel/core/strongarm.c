// SA-1100 and SA-1110 (Intel 278088-004, chapters 5 and 6).
#include "core.h"

// There is no operation that cleans the whole data cache. Loading as many lines as it has (8 KB), at
// addresses that hold nothing else, evicts what was there; then the loaded lines are dropped (6.2.3).
// One piece of assembly, since a line that the compiler's code made dirty in between would be lost.
LINE_ALIGNED static void clean_and_invalidate_data(void)
{
	u32 at = EVICTION, rounds = 256 / 8, scratch;
	__asm__ volatile("1:\n"
			 "	.rept	8\n"
			 "	ldr	%2, [%0], #32\n"
			 "	.endr\n"
			 "	subs	%1, %1, #1\n"
			 "	bne	1b\n"
			 "	mcr	p15, 0, %1, c7, c10, 4\n"
			 "	mcr	p15, 0, %1, c7, c6, 0"
			 : "+r"(at), "+r"(rounds), "=&r"(scratch)::"memory", "cc");
}

LINE_ALIGNED static void invalidate_instructions(void)
{
	__asm__ volatile("mcr p15, 0, %0, c7, c5, 0\n\tnop\n\tnop\n\tnop\n\tnop" ::"r"(0) : "memory");
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

// The instruction cache and the instruction TLB can only be flushed whole.
static void invalidate_page_instructions(u32 address)
{
	(void)address;
	invalidate_instructions();
}

static void invalidate_tlb(void)
{
	__asm__ volatile("mcr p15, 0, %0, c8, c7, 0" ::"r"(0) : "memory");
}

static void invalidate_tlb_entry(u32 address)
{
	__asm__ volatile("mcr p15, 0, %0, c8, c6, 1\n\tmcr p15, 0, %1, c8, c5, 0" ::"r"(address), "r"(0) : "memory");
}

static void wait(void)
{
	__asm__ volatile("mcr p15, 0, %0, c15, c8, 2" ::"r"(0) : "memory");
}

const struct core core_strongarm = {
	.name = "strongarm",
	.id = 0x40010000, // SA-1100: 0x4401a11x, Digital's letter; SA-1110: 0x6901b11x, Intel's
	.id_mask = 0xd2ff0000,
	.pids = 64,             // bits 30:25 (278088-004, 5.2.10): 32 MB slots in the lower 2 GB
	.coarse_bits = 0x11,
	.section_bits = 0x12,
	.clean_and_invalidate_data = clean_and_invalidate_data,
	.invalidate_instructions = invalidate_instructions,
	.clean_page_data = clean_page_data,
	.clean_and_invalidate_page_data = clean_and_invalidate_page_data,
	.invalidate_page_instructions = invalidate_page_instructions,
	.invalidate_tlb = invalidate_tlb,
	.invalidate_tlb_entry = invalidate_tlb_entry,
	.wait = wait,
};
