// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all schemes share: the kernel's parameter, process identifiers (PIDs), where mappings go,
 * whose lines the cache may have, and maintenance by modified virtual address.
 */
#include <linux/elf-randomize.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched/mm.h>
#include <linux/string.h>
#include <linux/random.h>

#include <asm/address_spaces.h>
#include <asm/cacheflush.h>
#include <asm/domain.h>
#include <asm/mmu_context.h>
#include <asm/tlbflush.h>

#include "spaces.h"

/* Left free above the stack for the page with signal handlers' return code. */
#define ABOVE_STACK	SZ_64K
#define FASS_PIDS	64

enum address_spaces address_spaces __ro_after_init = SPACES_OFF;
DEFINE_STATIC_KEY_FALSE_RO(spaces_on);
DEFINE_STATIC_KEY_FALSE_RO(spaces_best_effort);
DEFINE_STATIC_KEY_FALSE_RO(spaces_fass);
DEFINE_STATIC_KEY_FALSE_RO(spaces_shared);
DEFINE_STATIC_KEY_FALSE_RO(spaces_whole_tlb);
unsigned long spaces_stack_top __ro_after_init = TASK_SIZE;

struct mm_struct *space_loaded = &init_mm;
unsigned int space_flushes = 1;
/* The newest of them that is complete: of the data cache at least, and of both caches. */
static unsigned int data_flushes_complete = 1, flushes_complete = 1;
unsigned int space_pids __ro_after_init;

static u16 pid_users[128];
/*
 * What a space had in the instruction cache stays there when it ends, which spares the kernel its
 * own lines. They are in the slot of its PID: this is when it last ran, as `flushes` of a space.
 */
static unsigned int pid_left[128];
/* The newest of these. */
static unsigned int newest_left;
static unsigned int last_pid;
static bool refused;

/* How many identifiers the register holds: 64 on SA-1100, 128 on ARMv5's FCSE. */
static unsigned int __init pids_of_hardware(void)
{
	unsigned long bits;

	write_pid(127UL << PID_SHIFT);
	asm volatile("mrc	p15, 0, %0, c13, c0, 0" : "=r" (bits));
	write_pid(0);
	return (bits >> PID_SHIFT) + 1;
}

static int __init choose_address_spaces(char *name)
{
	static const char *const names[] = {
		[SPACES_OFF] = "off",
		[SPACES_FCSE_GUARANTEED] = "fcse-guaranteed",
		[SPACES_FCSE_BEST_EFFORT] = "fcse-best-effort",
		[SPACES_FASS] = "fass",
		[SPACES_FASS_SHARED] = "fass-shared",
	};
	int scheme = match_string(names, ARRAY_SIZE(names), name);

	if (scheme < 0) {
		pr_err("address_spaces=%s: must be off, fcse-guaranteed, fcse-best-effort, fass or fass-shared\n", name);
		return -EINVAL;
	}
	if (scheme == SPACES_OFF) {
		/* Also what stands before it on the command line. */
		address_spaces = SPACES_OFF;
		space_pids = 0;
		spaces_stack_top = TASK_SIZE;
		return 0;
	}
	/* Both change pages of a private mapping of a file behind the back of the regions. */
	if (scheme == SPACES_FASS_SHARED &&
	    (IS_ENABLED(CONFIG_UPROBES) || IS_ENABLED(CONFIG_MIGRATION))) {
		pr_err("address_spaces=%s: not with CONFIG_UPROBES or CONFIG_MIGRATION\n", name);
		return -EINVAL;
	}
	/* A slot that reaches into the kernel's addresses is of no use. */
	space_pids = min(pids_of_hardware(), (unsigned int)(TASK_SIZE >> PID_SHIFT));
	if (scheme >= SPACES_FASS)
		space_pids = min_t(unsigned int, space_pids, FASS_PIDS);
	if (space_pids < 2) {
		space_pids = 0;
		pr_err("address_spaces=%s: this core has no process identifiers\n", name);
		return -EINVAL;
	}
	address_spaces = scheme;
	spaces_stack_top = SPACE_LOW_SIZE - ABOVE_STACK;
	pr_info("Address spaces: %s with %u process identifiers\n", name, space_pids);
	return 0;
}
early_param("address_spaces", choose_address_spaces);

/*
 * For emulators: QEMU's TLB knows addresses before they are relocated, so that the operations that
 * invalidate a single entry by its MVA, as the cores do, have no effect on it.
 */
static bool whole_tlb_chosen __initdata;

static int __init choose_whole_tlb(char *unused)
{
	whole_tlb_chosen = true;
	return 0;
}
early_param("address_spaces_whole_tlb", choose_whole_tlb);

/* Code cannot be patched yet when early parameters are read; nothing but the kernel has run so far. */
static int __init patch_questions(void)
{
	if (address_spaces != SPACES_OFF)
		static_branch_enable(&spaces_on);
	if (address_spaces == SPACES_FCSE_BEST_EFFORT)
		static_branch_enable(&spaces_best_effort);
	if (address_spaces >= SPACES_FASS)
		static_branch_enable(&spaces_fass);
	if (address_spaces == SPACES_FASS_SHARED)
		static_branch_enable(&spaces_shared);
	if (whole_tlb_chosen)
		static_branch_enable(&spaces_whole_tlb);
	return 0;
}
early_initcall(patch_questions);

/* ---- process identifiers ------------------------------------------------------------------- */

/* A PID that nobody has; else the next one, to be shared, or -1 where sharing is not allowed. */
static int give_pid(void)
{
	unsigned int first = address_spaces == SPACES_FCSE_GUARANTEED ? 0 : 1;
	unsigned int pid = last_pid, tries;

	for (tries = 0; tries < space_pids; tries++) {
		if (++pid >= space_pids)
			pid = first;
		if (!pid_users[pid])
			break;
	}
	if (tries == space_pids) {
		if (address_spaces == SPACES_FCSE_GUARANTEED)
			return -1;
		pid = last_pid + 1 < space_pids ? last_pid + 1 : 1;
	}
	last_pid = pid;
	return pid;
}

static bool is_since_flush(unsigned int when)
{
	return (int)(when - flushes_complete) >= 0;
}

/* Whether a space that has ended may have left lines of instructions in the slot of its PID. */
bool spaces_left_lines(void)
{
	return is_since_flush(newest_left);
}

/* A space ends, whose data is flushed. Where others may use its MVAs, its instructions are, too. */
static void leave_lines(struct mm_struct *mm)
{
	unsigned int pid = mm->context.pid >> PID_SHIFT;

	if (!space_may_have_lines(mm))
		return;
	preempt_disable();
	if (mm->context.large || mm->context.spread || pid_users[pid] > 1) {
		space_flush_cache();
	} else {
		pid_left[pid] = mm->context.flushes;
		if ((int)(mm->context.flushes - newest_left) > 0)
			newest_left = mm->context.flushes;
	}
	preempt_enable();
}

int space_init(struct mm_struct *mm)
{
	bool large = mm->context.large;	/* at fork the parent's, at exec 0 */
	int pid = 0;

	mm->context.pid = 0;
	mm->context.flushes = flushes_complete - 1;
	mm->context.high_pages = 0;
	mm->context.shared_dirty = 0;
	mm->context.spread = false;
	mm->context.domain = 0;
	mm->context.regions = 0;
	mm->context.region_pages = 0;
	mm->context.region_domains = 0;
	preempt_disable();
	if (!large)
		pid = give_pid();
	if (pid >= 0) {
		if (is_since_flush(pid_left[pid]))
			space_flush_cache();
		pid_users[pid]++;
	}
	preempt_enable();
	refused = pid < 0;
	if (refused)
		return -EAGAIN;
	mm->context.pid = (unsigned long)pid << PID_SHIFT;
	return 0;
}

/* Why a space was not made: there are no more PIDs, which others may give back, or no memory. */
int space_error(void)
{
	return xchg(&refused, false) ? -EAGAIN : -ENOMEM;
}

/* Gives up the PID for 0, with which nothing is relocated. */
void space_take_pid_0(struct mm_struct *mm)
{
	pid_users[mm->context.pid >> PID_SHIFT]--;
	pid_users[0]++;
	mm->context.pid = 0;
}

void space_destroy(struct mm_struct *mm)
{
	preempt_disable();
	/* Nobody may use its tables any more, nor write to `space_loaded`. */
	WARN_ON_ONCE(mm == space_loaded);
	/* Every page was counted when it came and when it went. */
	WARN_ON_ONCE(mm->context.high_pages || mm->context.shared_dirty);
	if (!spaces_are_fass())
		fcse_destroy(mm);
	pid_users[mm->context.pid >> PID_SHIFT]--;
	preempt_enable();
}

/* ---- switches, caches and TLBs ------------------------------------------------------------- */

void space_switch(struct mm_struct *next)
{
	if (spaces_are_fass())
		fass_switch(next);
	else
		fcse_switch(next);
}

bool space_may_have_lines(struct mm_struct *mm)
{
	return is_since_flush(mm->context.flushes);
}

/* A flush is complete; spaces that have run since it began may have lines again. */
static void end_data_flush(unsigned int flush)
{
	/* One that began later may have been complete before. */
	if ((int)(flush - data_flushes_complete) > 0)
		data_flushes_complete = flush;
}

static void end_flush(unsigned int flush)
{
	end_data_flush(flush);
	if ((int)(flush - flushes_complete) > 0)
		flushes_complete = flush;
}

/* Cleans and invalidates everything, after which no space but the one that runs has lines. */
void space_flush_cache(void)
{
	preempt_disable();
	space_flushes++;
	space_runs(space_loaded);
	__cpuc_flush_user_all();
	end_flush(space_flushes);
	preempt_enable();
}

/*
 * At fork and at the end of a space, what it has written must be in memory. What it executes has not
 * changed, so that the instruction cache stays: the flush of a range without VM_EXEC spares it, and
 * one of a range that is larger than the cache is one of the whole data cache.
 */
void space_flush_mm(struct mm_struct *mm)
{
	if ((int)(mm->context.flushes - data_flushes_complete) < 0)
		return;
	preempt_disable();
	space_flushes++;
	space_runs(space_loaded);
	__cpuc_flush_user_range(0, SPACE_LOW_SIZE, 0);
	drain_write_buffer();
	end_data_flush(space_flushes);
	preempt_enable();
}

/*
 * Loads a space after a flush that can be preempted, where that is possible. The scheduler has
 * preemption disabled, and the hardware has the space that went, which nothing here uses.
 *
 * Only one flush at a time can be preempted. XScale and StrongARM fill the cache with a window of
 * addresses, of which there are two, in turn. A flush in the middle of another fills it with the
 * other window, but one in the middle of that would find a part of its window in place.
 */
static void flush_and_load(struct mm_struct *mm)
{
	static struct task_struct *preemptible;
	struct mm_struct *loaded = space_loaded;
	bool is_flushed = false;
	unsigned int flush;

	/*
	 * Switched back to, in the middle of its flush. The space that ran meanwhile may have ended: the
	 * scheduler frees it after this, so that the hardware must not have it until the flush is complete.
	 */
	if (preemptible == current) {
		mm->context.switch_pending = 0;
		fcse_flush_if_needed(mm);
		fcse_load(mm);
		return;
	}
	if (!preemptible && preempt_count() == PREEMPT_DISABLE_OFFSET) {
		preemptible = current;
		flush = ++space_flushes;
		preempt_enable();
		__cpuc_flush_user_all();
		preempt_disable();
		end_flush(flush);
		preemptible = NULL;
		is_flushed = true;
	}
	preempt_disable();
	/* Not if the switch back to it, or another of its threads, has loaded it meanwhile. */
	if (mm->context.switch_pending) {
		mm->context.switch_pending = 0;
		/* A switch to another space would have been followed by one of these. */
		WARN_ON_ONCE(space_loaded != loaded);
		if (!is_flushed)
			fcse_flush_if_needed(mm);
		fcse_load(mm);
	}
	preempt_enable_no_resched();
}

/* A switch that was put off until interrupts are enabled, since it has to flush. */
void space_switch_pending(struct mm_struct *mm)
{
	if (mm->context.switch_pending)
		flush_and_load(mm);
}

void space_flush_tlb_range(struct vm_area_struct *vma, unsigned long start, unsigned long end)
{
	struct mm_struct *mm = vma->vm_mm;

	if (space_regions(mm))
		regions_invalidate(mm, start, end);
	if (!cpumask_test_cpu(smp_processor_id(), mm_cpumask(mm)))
		return;
	/* Several mappings at once, relocated ones and others. */
	if ((start < SPACE_LOW_SIZE && end > SPACE_LOW_SIZE && mm->context.pid) ||
	    spaces_invalidate_whole_tlb()) {
		local_flush_tlb_all();
		return;
	}
	end -= start;
	start = space_mva(mm, start);
	__cpu_flush_user_tlb_range(start, start + end, vma);
}
EXPORT_SYMBOL(space_flush_tlb_range);

/* The last that is done for a space before its PID is given back. */
void space_free_tables(struct mm_struct *mm)
{
	leave_lines(mm);
	if (spaces_are_fass())
		fass_free_tables(mm);
}

/* Before the MMU is switched off: low addresses are not relocated any more. */
void space_leave_all(void)
{
	if (address_spaces != SPACES_OFF)
		write_pid(0);
}

/* ---- where mappings go --------------------------------------------------------------------- */

/* Whether a mapping may be at an address at all, or grow to it. */
bool space_may_have(unsigned long addr, unsigned long len)
{
	if (addr < SPACE_LOW_SIZE && len <= SPACE_LOW_SIZE - addr)
		return true;
	switch (address_spaces) {
	case SPACES_FCSE_BEST_EFFORT:
		return len <= TASK_SIZE && addr <= TASK_SIZE - len;
	case SPACES_FASS:
	case SPACES_FASS_SHARED:
		return addr >= FASS_HIGH && len <= TASK_SIZE && addr <= TASK_SIZE - len;
	default:
		return false;
	}
}

static unsigned long search(unsigned long low, unsigned long high, unsigned long len, bool down)
{
	struct vm_unmapped_area_info info = {
		.flags = down ? VM_UNMAPPED_AREA_TOPDOWN : 0,
		.length = len,
		.low_limit = low,
		.high_limit = high,
	};

	return low < high ? vm_unmapped_area(&info) : -ENOMEM;
}

/* A free place, in the low 32 MB if there is one. */
static unsigned long free_place(struct mm_struct *mm, unsigned long len)
{
	unsigned long base = min(mm->mmap_base, SPACE_LOW_SIZE);
	unsigned long addr = search(FIRST_USER_ADDRESS, base, len, true);

	if (IS_ERR_VALUE(addr))
		addr = search(base, SPACE_LOW_SIZE, len, false);
	if (!IS_ERR_VALUE(addr) || address_spaces == SPACES_FCSE_GUARANTEED)
		return addr;
	if (address_spaces == SPACES_FCSE_BEST_EFFORT)
		return search(SPACE_LOW_SIZE, TASK_SIZE, len, false);
	/* Spaces that use the same slots flush each other out: begin at different ones. */
	if (address_spaces == SPACES_FASS_SHARED)
		addr = search(FASS_HIGH + (mm->context.pid >> 2), FASS_SHARED, len, false);
	else
		addr = search(FASS_HIGH + (mm->context.pid >> 1), TASK_SIZE, len, false);
	if (IS_ERR_VALUE(addr))
		addr = search(FASS_HIGH, TASK_SIZE, len, false);
	return addr;
}

/* In place of both arch_get_unmapped_area(); what asks for a fixed place comes here too. */
unsigned long space_unmapped_area(struct file *filp, unsigned long addr, unsigned long len,
				  unsigned long pgoff, unsigned long flags, unsigned long vm_flags)
{
	struct mm_struct *mm = current->mm;

	if (flags & MAP_FIXED) {
		if (!space_may_have(addr, len))
			return -ENOMEM;
	} else {
		struct vm_area_struct *vma;

		/* What others may share has to be where they have it. */
		if (spaces_are_shared() && filp && len <= PGDIR_SIZE &&
		    (flags & MAP_SHARED)) {
			unsigned long place = regions_place(filp, pgoff, vm_flags);

			vma = find_vma(mm, place);
			if (!vma || vma->vm_start >= place + PGDIR_SIZE)
				return place;
		}

		/* A wish is granted in the low 32 MB only: others cost more, or are not allowed. */
		addr = PAGE_ALIGN(addr);
		vma = addr ? find_vma(mm, addr) : NULL;
		if (!addr || addr >= SPACE_LOW_SIZE || len > SPACE_LOW_SIZE - addr ||
		    (vma && addr + len > vm_start_gap(vma)))
			addr = free_place(mm, len);
		if (IS_ERR_VALUE(addr))
			return addr;
	}
	if (spaces_are_best_effort() && addr + len > SPACE_LOW_SIZE)
		fcse_grow(mm, addr + len);
	return addr;
}

unsigned long arch_randomize_brk(struct mm_struct *mm)
{
	/* A program whose text is high, to be shared, keeps its heap low, as its data is. */
	if (spaces_are_fass() && mm->brk >= FASS_HIGH)
		return randomize_page(SZ_4M, SZ_1M);
	return randomize_page(mm->brk, address_spaces == SPACES_OFF ? SZ_32M : SZ_1M);
}
