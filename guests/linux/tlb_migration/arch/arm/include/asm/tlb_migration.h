/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TLB migration: entries of the data TLB follow a task to another core.
 */
#ifndef __ASM_ARM_TLB_MIGRATION_H
#define __ASM_ARM_TLB_MIGRATION_H

struct mm_struct;
struct task_struct;

#ifdef CONFIG_ARM_TLB_MIGRATION

#include <linux/cache.h>
#include <linux/jump_label.h>
#include <linux/mm_types.h>
#include <linux/thread_info.h>

#include <asm/cputype.h>

/*
 * Entries are saved and restored; or a core takes them over from another one.
 * Ticks tell the TLB when entries were used.
 */
DECLARE_STATIC_KEY_FALSE(tlb_migration);
DECLARE_STATIC_KEY_FALSE(tlb_transfer);
DECLARE_STATIC_KEY_FALSE(tlb_transfer_accounts);
DECLARE_STATIC_KEY_FALSE(tlb_ages);
DECLARE_STATIC_KEY_FALSE(tlb_migration_skips);

/*
 * The number of invalidations of a space, and below it those that have begun
 * and not ended. More threads than the lower field has room for cannot be.
 */
#define INVALIDATIONS_UNDER_WAY_BITS	22
#define INVALIDATION_BEGINS	((1LL << INVALIDATIONS_UNDER_WAY_BITS) + 1)

#define INVALIDATIONS_OF_ALL	(&tlb_migration_state.invalidations_of_all)
#define MM_INVALIDATIONS(mm)	(&(mm)->context.invalidations)

/**
 * struct tlb_migration_state - what each migration looks at, in one line of the
 * cache, and hardly ever changes
 * @invalidations_of_all: of all spaces at once
 * @mode: off, as the thesis has it, safe, or by transfer
 * @most_words: how much is saved of a task
 * @which_entries: what is written beside the ASID to begin a stream
 * @asks_other_cores: whether a core that migrates another's task asks that one
 * @gives_to_threads: whether a new thread gets entries of its creator
 * @accounts: whether it is counted what was moved in vain
 */
struct tlb_migration_state {
	atomic64_t	invalidations_of_all;
	enum {
		TLB_MIGRATION_OFF, TLB_MIGRATION_THESIS, TLB_MIGRATION_SAFE,
		TLB_MIGRATION_TRANSFER,
	} mode;
	unsigned int	most_words;
	u32		which_entries;
	bool		asks_other_cores, gives_to_threads, accounts;
} ____cacheline_aligned;

extern struct tlb_migration_state tlb_migration_state;

/*
 * Around each invalidation of entries of user space, after its descriptors
 * were changed. What orders these with the invalidation are the barriers
 * that it has itself: a DSB before and one after.
 */
static inline void invalidation_begins(atomic64_t *invalidations)
{
	if (static_branch_unlikely(&tlb_migration))
		atomic64_add(INVALIDATION_BEGINS, invalidations);
}

static inline void invalidation_ends(atomic64_t *invalidations)
{
	if (static_branch_unlikely(&tlb_migration))
		atomic64_dec(invalidations);
}

/* Whether entries follow tasks to other cores. */
static inline bool tlb_entries_move(void)
{
	return static_branch_unlikely(&tlb_migration) ||
	       static_branch_unlikely(&tlb_transfer);
}

void __tlb_migration_leaves(struct task_struct *task, int cpu);
void __tlb_migration_moves_queued(struct task_struct *task);
void __tlb_migration_defers(void);
void __tlb_migration_saves(void);
void __tlb_migration_starts(struct task_struct *task);
void __tlb_migration_arrives(void);
void __tlb_transfer_counts(void);
bool __tlb_migration_is_skipped(void);

/* For measurements: of the next arrivals that bring entries, counted from 1, this one brings none. */
void tlb_migration_skip(int arrival);

static inline bool tlb_migration_is_skipped(void)
{
	return static_branch_unlikely(&tlb_migration_skips) && __tlb_migration_is_skipped();
}

/*
 * Version 5 of the interface: a task with the space @mm was switched to, and if
 * it ran on another core before, this one takes over what that has of the space.
 * In line, since what a migration executes is hardly ever in the cache.
 */
static inline void tlb_transfer_begins(struct mm_struct *mm)
{
	struct thread_info *thread = current_thread_info();
	u32 core = MPIDR_AFFINITY_LEVEL(read_cpuid_mpidr(), 0), old = thread->tlb_core;

	if (likely(old == core))
		return;
	thread->tlb_core = core;
	if (!mm || tlb_migration_is_skipped())
		return;
	if (static_branch_unlikely(&tlb_transfer_accounts))
		__tlb_transfer_counts();
	asm volatile("mcr p15, 3, %0, c15, c10, 0" : : "r" (old) : "memory");
}

/* A task, which does not run, is given to another core. Interrupts are off. */
static inline void tlb_migration_leaves(struct task_struct *task, int cpu)
{
	if (static_branch_unlikely(&tlb_migration))
		__tlb_migration_leaves(task, cpu);
}

/* The same in the one place that the thesis of 2018 has. */
static inline void tlb_migration_moves_queued(struct task_struct *task)
{
	if (static_branch_unlikely(&tlb_migration))
		__tlb_migration_moves_queued(task);
}

/*
 * Around the migration of one of its tasks by a core that has nothing else to
 * do: the task is on its way to the other core before its entries are saved.
 */
static inline void tlb_migration_defers(void)
{
	if (static_branch_unlikely(&tlb_migration))
		__tlb_migration_defers();
}

static inline void tlb_migration_saves(void)
{
	if (static_branch_unlikely(&tlb_migration))
		__tlb_migration_saves();
}

/* A new task has got its first core. Interrupts are off. */
static inline void tlb_migration_starts(struct task_struct *task)
{
	if (static_branch_unlikely(&tlb_migration))
		__tlb_migration_starts(task);
}

/* The current task, with the space @mm, was switched to. It cannot be preempted. */
static inline void tlb_migration_arrives(struct mm_struct *mm)
{
	if (static_branch_unlikely(&tlb_migration))
		__tlb_migration_arrives();
	if (static_branch_unlikely(&tlb_transfer))
		tlb_transfer_begins(mm);
}

/* The scheduler's tick of this core: a mark for the ages of its entries. */
static inline void tlb_migration_ticks(void)
{
	if (static_branch_unlikely(&tlb_ages))
		asm volatile("mcr p15, 3, %0, c15, c10, 1" : : "r" (0) : "memory");
}

/* In context.c: whether entries with the space's ASID are its own. */
bool asid_is_of_mm(struct mm_struct *mm);

#else

#define MM_INVALIDATIONS(mm)	NULL
#define INVALIDATIONS_OF_ALL	NULL
#define invalidation_begins(invalidations)	do { } while (0)
#define invalidation_ends(invalidations)	do { } while (0)
#define tlb_entries_move()	false

#endif
#endif
