/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Entries of the data TLB that follow a task to another core.
 */
#ifndef __ASM_ARM_SAVED_TLB_H
#define __ASM_ARM_SAVED_TLB_H

#ifdef CONFIG_ARM_TLB_MIGRATION

#include <linux/types.h>

/*
 * The stream of the interface has seven bytes an entry and is read eight
 * bytes at a time, so that a multiple of eight entries ends with a whole one.
 */
#define SAVED_TLB_STEP		8
#define SAVED_TLB_MOST		256
#define SAVED_TLB_WORDS(entries)	((entries) * 7 / 4)

/**
 * struct saved_tlb - what a task takes with it
 * @state:		who has it: see tlb_migration.c
 * @cpu:		whose TLB the entries are of
 * @words:		number of words in @entries
 * @invalidations:	what mm_invalidations() was when they were read
 * @entries:		the stream; behind everything, since a new task needs
 *			no copy of it
 */
struct saved_tlb {
	atomic_t	state;
	int		cpu;
	unsigned int	words;
	u64		invalidations;
	u32		entries[SAVED_TLB_WORDS(SAVED_TLB_MOST)];
} __aligned(64);

#endif
#endif
