/* SPDX-License-Identifier: GPL-2.0-only */
/* What the schemes of address_spaces.c, fcse.c and fass.c share. */
#ifndef __ARM_MM_SPACES_H
#define __ARM_MM_SPACES_H

#include <linux/bits.h>
#include <linux/mm_types.h>

#include <asm/address_spaces.h>

#define PID_SHIFT	25	/* where the register of c13 has the process identifier */

/* The space that the hardware has now; its user code may run, others' may not. */
extern struct mm_struct *space_loaded;
/* How many flushes of a whole cache have begun, of both or of the data cache alone. */
extern unsigned int space_flushes;
/* The number of identifiers, 0 with nothing but this kernel. */
extern unsigned int space_pids;

/* A space that runs from here on may have lines. */
static inline void space_runs(struct mm_struct *mm)
{
	space_loaded = mm;
	mm->context.flushes = space_flushes;
}

static inline void write_pid(unsigned long pid)
{
	asm volatile("mcr	p15, 0, %0, c13, c0, 0	@ FCSE process identifier" : : "r" (pid) : "memory");
}

static inline void drain_write_buffer(void)
{
	asm volatile("mcr	p15, 0, %0, c7, c10, 4	@ drain write buffer" : : "r" (0) : "memory");
}

/*
 * The fault address register has the MVA (ARM DDI 0100I, B8.3). An access to the space's own slot
 * by its MVA cannot be told from one by the virtual address, and does the same.
 */
static inline unsigned long space_fault_address(unsigned long addr)
{
	unsigned long pid = spaces_are_on() ? space_loaded->context.pid : 0;

	if (pid && !((addr ^ pid) >> PID_SHIFT))
		addr &= SPACE_LOW_SIZE - 1;
	return addr;
}

void space_take_pid_0(struct mm_struct *mm);
bool spaces_left_lines(void);

void fcse_switch(struct mm_struct *next);
void fcse_load(struct mm_struct *next);
void fcse_flush_if_needed(struct mm_struct *next);
void fcse_destroy(struct mm_struct *mm);
void fcse_grow(struct mm_struct *mm, unsigned long end);

void fass_switch(struct mm_struct *next);
bool fass_fault(unsigned long addr);
void fass_write_domains(struct mm_struct *mm);
unsigned int fass_give_domain_to_region(void);
void fass_take_domain_of_region(unsigned int domain);
bool fass_put(unsigned int slot, unsigned int domain, pmdval_t first, pmdval_t second,
	      const void *holder);
void fass_empty_slot(unsigned int slot);
void fass_free_tables(struct mm_struct *mm);

/* Translation and domain faults of sections and pages. */
#define FASS_FAULTS	(BIT(5) | BIT(7) | BIT(9) | BIT(11))

/* Whether a fault needs nothing but an entry of the shared directory, which it has now. */
static inline bool space_fault(unsigned long addr, unsigned int status)
{
	return spaces_are_fass() && (BIT(status) & FASS_FAULTS) && fass_fault(addr);
}

/* FASS: where mappings go for which the low 32 MB are too small. Below lie the slots of all PIDs. */
#define FASS_HIGH	0x80000000UL
/* FASS with sharing: from here on mappings that may be shared are placed, each in its own slot. */
#define FASS_SHARED	0xa0000000UL

/* Of a table of user pages, without its domain; what differs between cores is in it (mmu.c). */
extern pmdval_t user_pmd_table;

struct region *region_that_is_shared(struct mm_struct *mm, unsigned long addr);
bool is_region(const void *holder);

/* The region that a space shares at an address, or NULL. */
static inline struct region *region_of(struct mm_struct *mm, unsigned long addr)
{
	return space_regions(mm) ? region_that_is_shared(mm, addr) : NULL;
}

bool regions_leave_for_page_beside(struct region *region, struct mm_struct *mm, unsigned long addr);
bool regions_load(struct region *region, struct mm_struct *mm, unsigned long addr);
unsigned long regions_place(struct file *filp, unsigned long pgoff, unsigned long vm_flags);

#endif
