/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the scheduler tells TLB migration.
 */
#ifndef _LINUX_TLB_MIGRATION_H
#define _LINUX_TLB_MIGRATION_H

#ifdef CONFIG_ARM_TLB_MIGRATION
#include <asm/tlb_migration.h>
#else
static inline void tlb_migration_leaves(struct task_struct *task, int cpu) { }
static inline void tlb_migration_moves_queued(struct task_struct *task) { }
static inline void tlb_migration_defers(void) { }
static inline void tlb_migration_saves(void) { }
static inline void tlb_migration_starts(struct task_struct *task) { }
static inline void tlb_migration_ticks(void) { }
#endif

#endif
