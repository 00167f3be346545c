/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address spaces that keep their cache lines over a switch, on cores whose caches are virtual.
 *
 * The core relocates addresses below 32 MB: the FCSE process identifier takes the place of the
 * upper seven bits, which gives the modified virtual address (MVA). Caches and TLBs see MVAs only,
 * and so do the operations that maintain them (ARM DDI 0100I, B8; SA-1100 manual, 5.2.13).
 */
#ifndef __ASM_ADDRESS_SPACES_H
#define __ASM_ADDRESS_SPACES_H

#ifdef CONFIG_ARM_ADDRESS_SPACES

#ifndef __ASSEMBLY__

#include <linux/jump_label.h>
#include <linux/sizes.h>
#include <linux/types.h>

struct mm_struct;
struct task_struct;
struct file;
struct vm_area_struct;

enum address_spaces {
	SPACES_OFF,			/* flush everything at each switch, as ever */
	SPACES_FCSE_GUARANTEED,		/* 32 MB for each process, as many as there are identifiers */
	SPACES_FCSE_BEST_EFFORT,	/* no limits; flushes when two spaces may have met in the cache */
	SPACES_FASS,			/* one page directory; domains tell spaces apart in the TLB */
	SPACES_FASS_SHARED,		/* the same, with domains for memory that spaces share */
};

extern enum address_spaces address_spaces;
extern unsigned long spaces_stack_top;

/*
 * Which scheme it is, where it is asked often: code that is patched at boot, so that the question
 * costs one instruction and no memory access.
 */
DECLARE_STATIC_KEY_FALSE(spaces_on);
DECLARE_STATIC_KEY_FALSE(spaces_best_effort);
DECLARE_STATIC_KEY_FALSE(spaces_fass);
DECLARE_STATIC_KEY_FALSE(spaces_shared);
DECLARE_STATIC_KEY_FALSE(spaces_whole_tlb);
#define spaces_are_on()			static_branch_unlikely(&spaces_on)
#define spaces_are_best_effort()	static_branch_unlikely(&spaces_best_effort)
#define spaces_are_fass()		static_branch_unlikely(&spaces_fass)
#define spaces_are_fcse()		(spaces_are_on() && !spaces_are_fass())
#define spaces_are_shared()		static_branch_unlikely(&spaces_shared)
#define spaces_invalidate_whole_tlb()	static_branch_unlikely(&spaces_whole_tlb)

#define SPACE_LOW_SIZE	SZ_32M

/* The address by which caches and TLBs know an address of a space. */
#define space_mva(mm, addr)						\
	({								\
		unsigned long __addr = (addr);				\
		spaces_are_on() && __addr < SPACE_LOW_SIZE ?		\
			__addr | (mm)->context.pid : __addr;		\
	})

/*
 * The address that indexes the page directory of a space. With FCSE the hardware walks it, so it
 * has its entries at the MVAs; with FASS the hardware walks another.
 */
#define space_table_address(mm, addr)					\
	({								\
		unsigned long __addr = (addr);				\
		spaces_are_fcse() && __addr < SPACE_LOW_SIZE ?		\
			__addr | (mm)->context.pid : __addr;		\
	})

/* The regions that a space shares, as bits. */
#define space_regions(mm)	(spaces_are_shared() ? (mm)->context.regions : 0)

int space_init(struct mm_struct *mm);
int space_error(void);
void space_destroy(struct mm_struct *mm);
void space_switch(struct mm_struct *next);
void space_switch_pending(struct mm_struct *mm);
bool space_may_have_lines(struct mm_struct *mm);
void space_flush_cache(void);
void space_flush_mm(struct mm_struct *mm);
void space_new_table(struct mm_struct *mm, unsigned long addr);
void space_forget_table(struct mm_struct *mm, unsigned long addr);
void space_free_tables(struct mm_struct *mm);
void regions_forked(struct mm_struct *parent, struct mm_struct *child);
void regions_leave(struct mm_struct *mm, unsigned long start, unsigned long end);
void regions_page_mapped(struct vm_area_struct *vma, unsigned long addr);
void regions_invalidate(struct mm_struct *mm, unsigned long start, unsigned long end);
void regions_take_back(struct mm_struct *mm);
void space_leave_all(void);
bool space_may_have(unsigned long addr, unsigned long len);
unsigned long space_unmapped_area(struct file *filp, unsigned long addr, unsigned long len,
				  unsigned long pgoff, unsigned long flags, unsigned long vm_flags);

#endif /* __ASSEMBLY__ */

#endif
#endif
