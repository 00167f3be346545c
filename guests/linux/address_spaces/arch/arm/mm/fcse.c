// SPDX-License-Identifier: GPL-2.0-only
/*
 * FCSE: each process has its own slot of 32 MB of modified virtual addresses, and a page directory
 * of its own that has its tables there. A switch loads both and invalidates the TLB.
 *
 * Guaranteed: nothing is ever mapped elsewhere, so no two processes meet in the cache.
 *
 * Best effort: processes may share a PID, be larger than a slot (these have PID 0 and reach into
 * the slots of others) and write to pages that others map too. The cache is flushed when a switch
 * leads to a process whose lines or memory could be mixed up with another's.
 */
#include <linux/mm.h>
#include <linux/sched.h>

#include <asm/address_spaces.h>
#include <asm/cacheflush.h>
#include <asm/mmu_context.h>
#include <asm/pgalloc.h>
#include <asm/tlbflush.h>

#include "spaces.h"

#define TABLES_OF_SLOT	(SPACE_LOW_SIZE >> PGDIR_SHIFT)

/* Who ran last with a PID. */
static struct mm_struct *last_user[128];

void fcse_load(struct mm_struct *next)
{
	write_pid(next->context.pid);
	asm volatile(
	"mcr	p15, 0, %0, c2, c0, 0	@ translation table base\n\t"
	"mrc	p15, 0, r3, c2, c0, 0	@ XScale: wait until it is in force\n\t"
	"mov	r3, r3\n\t"
	"sub	pc, pc, #4"
	: : "r" (virt_to_phys(next->pgd)) : "r3", "memory");
	/* No address space identifiers in this TLB, and the directory is another. */
	local_flush_tlb_all();
	last_user[next->context.pid >> PID_SHIFT] = next;
	space_runs(next);
}

/* The MVAs of a space: those of its PID, or from 0 as far as it has pages. */
static unsigned long end_of(struct mm_struct *mm)
{
	if (mm->context.high_pages)
		return mm->context.high_end;
	return mm->context.pid + SPACE_LOW_SIZE;
}

static bool has_lines_among(struct mm_struct *other, struct mm_struct *next)
{
	return other && other != next && space_may_have_lines(other) &&
	       end_of(other) > next->context.pid;
}

/* Whether there may be lines in the cache that are not next's, and that it would take for its own. */
static bool would_be_mixed_up(struct mm_struct *next)
{
	unsigned int pid = next->context.pid >> PID_SHIFT;
	unsigned long end = end_of(next);

	/* What ended spaces left behind lies where only a large one can reach. */
	if (next->context.high_pages && spaces_left_lines())
		return true;
	/* A large one, of which there is at most one since the last flush, begins at PID 0. */
	if (has_lines_among(last_user[0], next))
		return true;
	for (; pid < space_pids && ((unsigned long)pid << PID_SHIFT) < end; pid++)
		if (has_lines_among(last_user[pid], next))
			return true;
	return false;
}

static bool flush_is_needed(struct mm_struct *next)
{
	if (!spaces_are_best_effort() || next == space_loaded)
		return false;
	/* What it has written is not in memory yet, and others have the same pages elsewhere. */
	return space_loaded->context.shared_dirty || would_be_mixed_up(next);
}

void fcse_flush_if_needed(struct mm_struct *next)
{
	if (flush_is_needed(next))
		space_flush_cache();
}

/* A flush takes long: with interrupts disabled it waits until the scheduler has enabled them. */
void fcse_switch(struct mm_struct *next)
{
	if (flush_is_needed(next) && irqs_disabled()) {
		next->context.switch_pending = 1;
		return;
	}
	next->context.switch_pending = 0;
	fcse_flush_if_needed(next);
	fcse_load(next);
}

void fcse_destroy(struct mm_struct *mm)
{
	struct mm_struct **last = &last_user[mm->context.pid >> PID_SHIFT];

	/* Its PID knows of the lines that it left; another may get this mm's address. */
	if (*last == mm)
		*last = NULL;
}

/* ---- best effort: large spaces and shared pages -------------------------------------------- */

/* The loaded space can have pages where it had none when it was switched to. */
static void reach_further(struct mm_struct *mm)
{
	if (mm == space_loaded && would_be_mixed_up(mm))
		space_flush_cache();
}

/*
 * The first mapping above 32 MB: the tables of the low 32 MB move to where the virtual addresses
 * are, and no address is relocated any more. The caller holds the lock of the mappings.
 */
void fcse_grow(struct mm_struct *mm, unsigned long end)
{
	preempt_disable();
	mm->context.high_end = max(mm->context.high_end, end);
	if (mm->context.large) {
		reach_further(mm);
		preempt_enable();
		return;
	}
	space_flush_cache();
	if (mm->context.pid) {
		pmd_t *from = (pmd_t *)(mm->pgd + pgd_index(mm->context.pid));
		pmd_t *to = (pmd_t *)mm->pgd;
		size_t size = TABLES_OF_SLOT * sizeof(pgd_t);

		spin_lock(&mm->page_table_lock);
		memcpy(to, from, size);
		memset(from, 0, size);
		clean_dcache_area(to, size);
		clean_dcache_area(from, size);
		fcse_destroy(mm);
		space_take_pid_0(mm);
		spin_unlock(&mm->page_table_lock);
	}
	mm->context.large = true;
	if (space_loaded == mm)
		fcse_load(mm);
	preempt_enable();
}

/* A page with dirty lines at MVAs of one space that another may map too. */
static bool is_shared_dirty(pte_t pte)
{
	pteval_t bits = L_PTE_PRESENT | L_PTE_SHARED | L_PTE_DIRTY;
	pteval_t type = pte_val(pte) & L_PTE_MT_MASK;

	return (pte_val(pte) & (bits | L_PTE_RDONLY)) == bits &&
	       type != L_PTE_MT_UNCACHED && type != L_PTE_MT_BUFFERABLE;
}

void space_account(struct mm_struct *mm, unsigned long addr, pte_t before, pte_t after)
{
	/* Nearly all pages are low and private: for them this costs one line of the cache. */
	if (addr < SPACE_LOW_SIZE && !((pte_val(before) | pte_val(after)) & L_PTE_SHARED))
		return;
	if (addr >= TASK_SIZE)
		return;
	mm->context.shared_dirty += is_shared_dirty(after) - is_shared_dirty(before);
	if (addr >= SPACE_LOW_SIZE) {
		bool had_none = !mm->context.high_pages;

		mm->context.high_pages += !!pte_present(after) - !!pte_present(before);
		if (had_none && mm->context.high_pages)
			reach_further(mm);
	}
}
