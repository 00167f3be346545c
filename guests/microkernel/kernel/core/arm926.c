// ARM926EJ-S (ARM DDI 0198D).
#include "arm9.h"

// "Test, clean and invalidate" works on one dirty line at a time and sets Z when there is none left.
static void clean_data(void)
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
	.clean_data = clean_data,
	.forget_instructions = forget_instructions,
	.clean_page = clean_page,
	.flush_page = flush_page,
	.forget_page_instructions = forget_page_instructions,
	.forget_translations = forget_translations,
	.forget_translation = forget_translation,
	.wait = wait,
};
