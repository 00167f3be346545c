/* SPDX-License-Identifier: GPL-2.0-only */
/* What the schemes of address_spaces.c, fcse.c and fass.c share. */
#ifndef __ARM_MM_SPACES_H
#define __ARM_MM_SPACES_H

#include <linux/mm_types.h>

#define PID_SHIFT	25	/* where the register of c13 has the process identifier */

/* The space that the hardware has now; its user code may run, others' may not. */
extern struct mm_struct *space_loaded;
/* How often the whole cache was cleaned and invalidated. */
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

void space_take_pid_0(struct mm_struct *mm);

void fcse_switch(struct mm_struct *next);
void fcse_load(struct mm_struct *next);
void fcse_flush_if_needed(struct mm_struct *next);
void fcse_destroy(struct mm_struct *mm);
void fcse_grow(struct mm_struct *mm, unsigned long end);

void fass_switch(struct mm_struct *next);
bool fass_fault(unsigned long addr, unsigned int status);
void fass_write_domains(struct mm_struct *mm);
unsigned int fass_give_domain_to_region(void);
void fass_take_domain_of_region(unsigned int domain);
bool fass_put(unsigned int slot, unsigned int domain, pmdval_t first, pmdval_t second,
	      const void *holder);
void fass_empty_slot(unsigned int slot);
void fass_forget_table(struct mm_struct *mm, unsigned long addr);
void fass_free_tables(struct mm_struct *mm);


/* FASS: where mappings go for which the low 32 MB are too small. Below lie the slots of all PIDs. */
#define FASS_HIGH	0x80000000UL
/* FASS with sharing: from here on mappings that may be shared are placed, each in its own slot. */
#define FASS_SHARED	0xa0000000UL

/* Of a table of user pages, without its domain; what differs between cores is in it (mmu.c). */
extern pmdval_t user_pmd_table;

struct region *region_of(struct mm_struct *mm, unsigned long addr);
bool is_region(const void *holder);
bool regions_load(struct region *region, struct mm_struct *mm, unsigned long addr);
unsigned long regions_place(struct file *filp, unsigned long pgoff, bool writable);

#endif
