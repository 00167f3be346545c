// ARM920T as in the AT91RM9200 (ARM DDI 0151).
#include "arm9.h"

// By index: 64 lines (bits 31:26) of each of 8 segments (bits 7:5).
static void clean_data(void)
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
	.clean_data = clean_data,
	.forget_instructions = forget_instructions,
	.clean_page = clean_page,
	.flush_page = flush_page,
	.forget_page_instructions = forget_page_instructions,
	.forget_translations = forget_translations,
	.forget_translation = forget_translation,
	.wait = wait,
};
