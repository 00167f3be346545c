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
void fass_forget_table(struct mm_struct *mm, unsigned long addr);
void fass_free_tables(struct mm_struct *mm);

#endif
