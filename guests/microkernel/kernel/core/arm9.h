// Operations that ARM920T and ARM926EJ-S have in common (ARM DDI 0151, 2.3; DDI 0198D, 2.3).
#include "core.h"

LINE_ALIGNED static void invalidate_instructions(void)
{
	__asm__ volatile("mcr p15, 0, %0, c7, c5, 0" ::"r"(0) : "memory");
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
		__asm__ volatile("mcr p15, 0, %0, c7, c14, 1" ::"r"(address) : "memory");
	core_drain();
}

static void invalidate_page_instructions(u32 address)
{
	address &= ~(PAGE_BYTES - 1);
	for (u32 end = address + PAGE_BYTES; address != end; address += LINE_BYTES)
		__asm__ volatile("mcr p15, 0, %0, c7, c5, 1" ::"r"(address) : "memory");
}

static void invalidate_tlb(void)
{
	__asm__ volatile("mcr p15, 0, %0, c8, c7, 0" ::"r"(0) : "memory");
}

// By modified address. QEMU keeps its translations by the address before relocation, and does not find
// them by the modified one; so the entry of that address goes too, which costs nobody much.
static void invalidate_tlb_entry(u32 address)
{
	u32 plain = address & (SLOT_BYTES - 1);
	__asm__ volatile("mcr p15, 0, %0, c8, c6, 1\n\tmcr p15, 0, %0, c8, c5, 1\n\t"
			 "mcr p15, 0, %1, c8, c6, 1\n\tmcr p15, 0, %1, c8, c5, 1" ::"r"(address), "r"(plain) : "memory");
}

static void wait(void)
{
	__asm__ volatile("mcr p15, 0, %0, c7, c0, 4" ::"r"(0) : "memory");
}
