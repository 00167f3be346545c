// ARM926EJ-S (ARM DDI 0198D).
#include "arm9.h"

// "Test, clean and invalidate" works on one dirty line at a time and sets Z when there is none left.
LINE_ALIGNED static void clean_and_invalidate_data(void)
{
	__asm__ volatile("1:	mrc	p15, 0, r15, c7, c14, 3\n"
			 "	bne	1b\n"
			 "	mcr	p15, 0, %0, c7, c10, 4" ::"r"(0) : "memory", "cc");
}

const struct core core_arm926 = {
	.name = "arm926",
	.id = 0x41009260,
	.id_mask = 0xff00fff0,
	.pids = 128,
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
