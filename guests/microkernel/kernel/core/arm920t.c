// ARM920T as in the AT91RM9200 (ARM DDI 0151).
#include "arm9.h"

// By index: 64 lines (bits 31:26) of each of 8 segments (bits 7:5).
LINE_ALIGNED static void clean_and_invalidate_data(void)
{
	u32 segment = 7 << 5, index;
	__asm__ volatile("1:	orr	%1, %0, #63 << 26\n"
			 "2:	mcr	p15, 0, %1, c7, c14, 2\n"
			 "	subs	%1, %1, #1 << 26\n"
			 "	bcs	2b\n"
			 "	subs	%0, %0, #1 << 5\n"
			 "	bcs	1b\n"
			 "	mcr	p15, 0, %0, c7, c10, 4"
			 : "+r"(segment), "=&r"(index)::"memory", "cc");
}

const struct core core_arm920t = {
	.name = "arm920t",
	.id = 0x41009200,
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
