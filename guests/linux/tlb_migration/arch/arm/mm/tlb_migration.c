// SPDX-License-Identifier: GPL-2.0-only
/*
 * TLB migration: entries of the data TLB follow a task to another core.
 *
 * A core with the interface gives the valid entries of an address space that
 * are not global as a stream of seven bytes each, and enters such a stream.
 * Entries are saved when a task that does not run is given to another core,
 * by the core whose TLB it is, and restored there when the task is switched
 * to. tlb_migration= chooses at boot:
 *
 *   off     the default
 *   thesis  as Landsberg's thesis of 2018 has it: in move_queued_task() only,
 *           by whichever core is there, and nothing is checked
 *   safe    for every migration, and a saved entry does not outlive its mapping
 *   transfer  nothing is saved: a core that switches to a task which ran on another
 *           core takes its entries over from there, see the end of this comment
 *
 * Who has the entries of a task is their state:
 *
 *   NOTHING    nobody: the task runs, or nothing was saved
 *   REQUESTED  the old core shall save them, and has not begun
 *   SAVING     it has begun, or will next; the task waits if it is switched to now
 *   SAVED      the task, which restores them when it is switched to
 *
 * A task that is switched to before the old core has begun takes the request
 * back: it does not wait for an interrupt. Where the old core itself migrates
 * the task and has nothing else to do, it sends it off first, so that the new
 * core switches to it while the entries are saved.
 *
 * Expiry. An entry may be restored if the TLB could still hold it, had it been
 * there all the time: if nothing of the space was invalidated since before it
 * was read. Each invalidation raises a number of the space before, and takes
 * itself off those under way after. Entries are read only while none is under
 * way: else the entry that it is about to remove could be read with the raised
 * number. They are entered, and the number is compared once more: an
 * invalidation that raises it later removes what was entered, too.
 *
 * Every invalidation is of all cores, also that of a rollover of ASIDs, which
 * each core does for itself otherwise: a core whose TLB was emptied after a
 * descriptor was changed must not get the old entry from one whose TLB was not.
 *
 * Transfer. Version 5 of the interface takes over entries from another core's
 * TLB while this core goes on, and enters none that is invalidated meanwhile. The
 * kernel does nothing but to begin it: the ASID of a space that runs is of no
 * other in any TLB. It ends where another space is switched to.
 */
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/smp.h>

#include <asm/mmu_context.h>
#include <asm/ptrace.h>
#include <asm/smp_plat.h>
#include <asm/tlb_migration.h>
#include <asm/tlbflush.h>
#include <asm/traps.h>

enum { NOTHING, REQUESTED, SAVING, SAVED };

struct tlb_migration_state tlb_migration_state = {
	.most_words = SAVED_TLB_WORDS(64),
	.asks_other_cores = true,
};
#define is_safe()	likely(tlb_migration_state.mode == TLB_MIGRATION_SAFE)

DEFINE_STATIC_KEY_FALSE(tlb_migration);
DEFINE_STATIC_KEY_FALSE(tlb_transfer);
DEFINE_STATIC_KEY_FALSE(tlb_transfer_accounts);
DEFINE_STATIC_KEY_FALSE(tlb_ages);
DEFINE_STATIC_KEY_FALSE(tlb_migration_skips);

/* How many arrivals still bring entries, with the one that brings none. */
static atomic_t arrivals_until_skip;

void tlb_migration_skip(int arrival)
{
	atomic_set(&arrivals_until_skip, arrival);
	static_branch_enable(&tlb_migration_skips);
}

bool __cold __tlb_migration_is_skipped(void)
{
	return atomic_dec_return(&arrivals_until_skip) == 0;
}

/* Fewer than this are left behind: to enter them costs more than they save. */
static unsigned int least_words __ro_after_init = 1;

/* What happened, for /proc/tlb_migration. */
#define COUNTED(X)							\
	X(migrations)		/* of tasks with a space of their own */ \
	X(saved_here)		/* by the core that migrates the task */ \
	X(requests)		/* to another core */			\
	X(requests_to_idle)	/* of these, to one that was idle */	\
	X(requests_refused)	/* it has one already */		\
	X(requests_served)						\
	X(requests_too_late)	/* the task was switched to before */	\
	X(threads_started)	/* with entries of their creator */	\
	X(not_its_own)		/* the ASID may be of another space */	\
	X(under_way)		/* an invalidation, while saving */	\
	X(restored)							\
	X(returned)		/* to the core that it left */		\
	X(expired)							\
	X(expired_meanwhile)	/* while they were entered */		\
	X(words_saved)							\
	X(words_restored)						\
	X(words_unused)		/* with tlb_migration_account: not moved */ \
	X(transfers)		/* with the same: begun */		\
	X(entries_taken_over)

#define X(name) name,
enum { COUNTED(X) COUNTS };
#undef X
#define X(name) #name,
static const char *const count_names[] = { COUNTED(X) };
#undef X

static DEFINE_PER_CPU(unsigned long [COUNTS], counts);

#define count(name)		__this_cpu_inc(counts[name])
#define count_words(name, words)	__this_cpu_add(counts[name], words)

/*
 * Version 4 of the interface: a space begins a stream, then pairs of words.
 * With USED the stream leaves out what was entered by one and not used since;
 * with 2 * USED also what was not used since the mark before the last, and
 * with 3 * USED all that was not used since the last.
 */
#define USED	(1 << 8)
#define MOST_USED	(3 * USED)
#define PORT_WRITE(value, op2)						\
	asm volatile("mcr p15, 3, %0, c15, c8, " #op2 : : "r" (value) : "memory")
#define PORT_READ(value, op2)						\
	asm volatile("mrc p15, 3, %0, c15, c8, " #op2 : "=r" (value) : : "memory")

static unsigned int read_entries(u32 *entries, u32 stream)
{
	unsigned int words, most = tlb_migration_state.most_words;

	PORT_WRITE(stream, 0);
	for (words = 0; words < most; words += 2) {
		u32 low, high;

		PORT_READ(low, 1);
		PORT_READ(high, 2);
		if (!(low | high))
			break;
		entries[words] = low;
		entries[words + 1] = high;
	}
	return words;
}

static void enter_entries(const u32 *entries, unsigned int words, u32 asid)
{
	const u32 *end = entries + words;

	PORT_WRITE(asid, 0);
	for (; entries < end; entries += 2) {
		PORT_WRITE(entries[0], 1);
		PORT_WRITE(entries[1], 2);
	}
	PORT_WRITE(0, 1);
	PORT_WRITE(0, 2);
	isb();
}

/* The number of invalidations, and those under way below it. */
static u64 mm_invalidations(struct mm_struct *mm)
{
	return atomic64_read(MM_INVALIDATIONS(mm)) +
	       atomic64_read(INVALIDATIONS_OF_ALL);
}

static bool same_invalidations(u64 before, u64 now)
{
	return !((before ^ now) >> INVALIDATIONS_UNDER_WAY_BITS);
}

static bool is_invalidated_now(u64 invalidations)
{
	return invalidations & ((1 << INVALIDATIONS_UNDER_WAY_BITS) - 1);
}

/* For measurements: how much of what came with the task was in vain. */
static noinline __cold void count_unused(struct saved_tlb *saved, u32 asid)
{
	unsigned int all = read_entries(saved->entries, asid);

	count_words(words_unused, all - read_entries(saved->entries, asid | USED));
	saved->words = read_entries(saved->entries, asid | tlb_migration_state.which_entries);
}

/* Reads entries of @mm in this core's TLB. */
static noinline bool save(struct saved_tlb *saved, struct mm_struct *mm)
{
	if (is_safe()) {
		saved->invalidations = mm_invalidations(mm);
		if (unlikely(is_invalidated_now(saved->invalidations))) {
			count(under_way);
			return false;
		}
		/* The number is that of before the first entry was read. */
		smp_rmb();
		if (unlikely(!asid_is_of_mm(mm))) {
			count(not_its_own);
			return false;
		}
	}
	saved->cpu = smp_processor_id();
	saved->words = read_entries(saved->entries, ASID(mm) | tlb_migration_state.which_entries);
	count_words(words_saved, saved->words);
	if (unlikely(tlb_migration_state.accounts))
		count_unused(saved, ASID(mm));
	return saved->words >= least_words;
}

/*
 * The one request that a core has: the task, and the interrupt that asks. The
 * task does not run while it is served, so that it keeps its space.
 */
struct request {
	struct task_struct	*task;
	call_single_data_t	call;
};

static void serve(void *request);
static DEFINE_PER_CPU(struct request, requests_of) = {
	.call = CSD_INIT(serve, NULL),
};

static void serve(void *unused)
{
	struct request *request = this_cpu_ptr(&requests_of);
	struct task_struct *task = request->task;
	struct saved_tlb *saved = &task->thread.saved_tlb;

	if (atomic_cmpxchg(&saved->state, REQUESTED, SAVING) == REQUESTED) {
		bool any = save(saved, task->mm);

		count(requests_served);
		atomic_set_release(&saved->state, any ? SAVED : NOTHING);
	}
	smp_store_release(&request->task, NULL);
	put_task_struct(task);
}

static noinline void ask(struct task_struct *task, int cpu)
{
	struct request *request = per_cpu_ptr(&requests_of, cpu);
	struct saved_tlb *saved = &task->thread.saved_tlb;

	if (cmpxchg(&request->task, NULL, task)) {
		count(requests_refused);
		return;
	}
	get_task_struct(task);
	atomic_set(&saved->state, REQUESTED);
	if (smp_call_function_single_async(cpu, &request->call)) {
		/* It is going offline. */
		atomic_set(&saved->state, NOTHING);
		smp_store_release(&request->task, NULL);
		put_task_struct(task);
		count(requests_refused);
		return;
	}
	count(requests);
	if (idle_cpu(cpu))
		count(requests_to_idle);
}

static bool is_migrated(struct task_struct *task)
{
	return task->mm && !(task->flags & (PF_KTHREAD | PF_EXITING));
}

/* A task of this core whose entries it saves when it has sent it off. */
struct deferred {
	bool			defers;
	struct task_struct	*task;
};
static DEFINE_PER_CPU(struct deferred, deferred);

void __tlb_migration_leaves(struct task_struct *task, int cpu)
{
	struct saved_tlb *saved = &task->thread.saved_tlb;
	int old = task_cpu(task);

	if (old == cpu || !is_migrated(task))
		return;
	count(migrations);
	/* It may leave again before it was switched to: those that it has are of where it ran. */
	if (!is_safe() || atomic_read(&saved->state) != NOTHING)
		return;
	if (old != smp_processor_id()) {
		if (tlb_migration_state.asks_other_cores)
			ask(task, old);
	} else if (__this_cpu_read(deferred.defers)) {
		__this_cpu_write(deferred.defers, false);
		__this_cpu_write(deferred.task, task);
		atomic_set(&saved->state, SAVING);
	} else if (save(saved, task->mm)) {
		count(saved_here);
		atomic_set_release(&saved->state, SAVED);
	}
}

void __tlb_migration_defers(void)
{
	__this_cpu_write(deferred.defers, is_safe());
}

void __tlb_migration_saves(void)
{
	unsigned long flags;
	struct task_struct *task;

	/* A task of which this is to be done waits for it, wherever it is. */
	local_irq_save(flags);
	task = __this_cpu_read(deferred.task);
	if (task) {
		bool any = save(&task->thread.saved_tlb, task->mm);

		__this_cpu_write(deferred.task, NULL);
		if (any)
			count(saved_here);
		atomic_set_release(&task->thread.saved_tlb.state, any ? SAVED : NOTHING);
	}
	__this_cpu_write(deferred.defers, false);
	local_irq_restore(flags);
}

void __tlb_migration_moves_queued(struct task_struct *task)
{
	struct saved_tlb *saved = &task->thread.saved_tlb;

	if (is_safe() || !is_migrated(task))
		return;
	if (save(saved, task->mm)) {
		count(saved_here);
		atomic_set(&saved->state, SAVED);
	}
}

void __tlb_migration_starts(struct task_struct *task)
{
	struct saved_tlb *saved = &task->thread.saved_tlb;

	if (!tlb_migration_state.gives_to_threads || !task->mm || task->mm != current->mm ||
	    task_cpu(task) == smp_processor_id())
		return;
	if (save(saved, task->mm)) {
		count(threads_started);
		atomic_set_release(&saved->state, SAVED);
	}
}

/* Enters what was saved, and takes it out again if it has expired meanwhile. */
static void restore(struct saved_tlb *saved, struct mm_struct *mm)
{
	if (is_safe()) {
		if (unlikely(saved->cpu == smp_processor_id())) {
			count(returned);
			return;
		}
		if (unlikely(!same_invalidations(saved->invalidations, mm_invalidations(mm)))) {
			count(expired);
			return;
		}
	}
	if (tlb_migration_is_skipped())
		return;
	enter_entries(saved->entries, saved->words, ASID(mm));
	if (is_safe()) {
		/* The number is that of after the last entry was entered. */
		smp_mb();
		if (unlikely(!same_invalidations(saved->invalidations, mm_invalidations(mm)))) {
			flush_tlb_mm(mm);
			isb();
			count(expired_meanwhile);
			return;
		}
	}
	count(restored);
	count_words(words_restored, saved->words);
}

/* Takes back a request that nobody has begun to serve, or waits; gives what it is then. */
static noinline int settle(struct saved_tlb *saved)
{
	if (atomic_cmpxchg(&saved->state, REQUESTED, NOTHING) == REQUESTED) {
		raw_cpu_inc(counts[requests_too_late]);
		return NOTHING;
	}
	return atomic_cond_read_acquire(&saved->state, VAL != SAVING);
}

void __tlb_migration_arrives(void)
{
	struct saved_tlb *saved = &current->thread.saved_tlb;
	int state = atomic_read_acquire(&saved->state);
	unsigned long flags;

	if (likely(state == NOTHING))
		return;
	/* The old core may serve an interrupt first, and that one wait for this core. */
	if (state != SAVED && settle(saved) != SAVED)
		return;
	/* The interface has one stream, and requests come by interrupts. */
	local_irq_save(flags);
	restore(saved, current->mm);
	local_irq_restore(flags);
	atomic_set(&saved->state, NOTHING);
}

/* What the last transfer of this core has entered: its state, less the bit that more is under way. */
void __cold __tlb_transfer_counts(void)
{
	u32 state;

	asm volatile("mrc p15, 3, %0, c15, c10, 0" : "=r" (state) : : "memory");
	count_words(entries_taken_over, state & ~(1u << 31));
	count(transfers);
}

/* A new task has no entries, and need not copy those of its creator. */
int arch_dup_task_struct(struct task_struct *copy, struct task_struct *original)
{
	memcpy(copy, original, offsetof(struct task_struct, thread.saved_tlb.entries));
	atomic_set(&copy->thread.saved_tlb.state, NOTHING);
	return 0;
}

/* ---- choosing it at boot ---------------------------------------------------- */

static const char *const modes[] __initconst = { "off", "thesis", "safe", "transfer" };

static int __init choose(char *name)
{
	int found = match_string(modes, ARRAY_SIZE(modes), name);

	if (found < 0)
		pr_err("TLB migration: no %s; there are off, thesis, safe and transfer\n", name);
	else
		tlb_migration_state.mode = found;
	return 0;
}
early_param("tlb_migration", choose);

static int __init choose_entries(char *number)
{
	unsigned int entries;

	if (kstrtouint(number, 10, &entries) || !entries || entries > SAVED_TLB_MOST)
		pr_err("TLB migration: 1 to %d entries, not %s\n", SAVED_TLB_MOST, number);
	else
		tlb_migration_state.most_words = SAVED_TLB_WORDS(round_up(entries, SAVED_TLB_STEP));
	return 0;
}
early_param("tlb_migration_entries", choose_entries);

static int __init choose_least(char *number)
{
	unsigned int entries;
	int error = kstrtouint(number, 10, &entries);

	if (!error)
		least_words = max(SAVED_TLB_WORDS(entries), 1U);
	return error;
}
early_param("tlb_migration_least", choose_least);

static int __init choose_requests(char *yes)
{
	return kstrtobool(yes, &tlb_migration_state.asks_other_cores);
}
early_param("tlb_migration_requests", choose_requests);

static int __init choose_threads(char *yes)
{
	return kstrtobool(yes, &tlb_migration_state.gives_to_threads);
}
early_param("tlb_migration_threads", choose_threads);

static int __init choose_account(char *yes)
{
	return kstrtobool(yes, &tlb_migration_state.accounts);
}
early_param("tlb_migration_account", choose_account);

static int __init choose_used(char *number)
{
	unsigned int used;

	if (kstrtouint(number, 10, &used) || used > MOST_USED / USED)
		pr_err("TLB migration: 0 to %d for what was used, not %s\n", MOST_USED / USED, number);
	else
		tlb_migration_state.which_entries = used * USED;
	return 0;
}
early_param("tlb_migration_used", choose_used);

/*
 * No register tells whether a core has the interface. Where it has not, the
 * register of a stream's space does not keep what is written, or is undefined.
 */
static int __init skip_undefined(struct pt_regs *regs, unsigned int instruction)
{
	regs->ARM_pc += 4;
	return 0;
}

static struct undef_hook undefined __initdata = {
	.instr_mask	= 0x0fef0fff,
	.instr_val	= 0x0e6f0f39,	/* mcr or mrc p15, 3, rX, c15, c9, 1 */
	.cpsr_mask	= MODE_MASK,
	.cpsr_val	= SVC_MODE,
	.fn		= skip_undefined,
};

static bool __init has_interface(void)
{
	u32 written = 0x5a, kept = 0;

	register_undef_hook(&undefined);
	asm volatile("mcr p15, 3, %1, c15, c9, 1\n\t"
		     "isb\n\t"
		     "mrc p15, 3, %0, c15, c9, 1" : "+r" (kept) : "r" (written));
	unregister_undef_hook(&undefined);
	return kept == written;
}

static int __init tlb_migration_init(void)
{
	if (tlb_migration_state.mode == TLB_MIGRATION_OFF)
		return 0;
	if (!has_interface()) {
		pr_err("TLB migration: this core has no interface for it\n");
		tlb_migration_state.mode = TLB_MIGRATION_OFF;
		return 0;
	}
	if (tlb_migration_state.which_entries > USED)
		static_branch_enable(&tlb_ages);
	if (tlb_migration_state.mode == TLB_MIGRATION_TRANSFER) {
		if (tlb_migration_state.accounts)
			static_branch_enable(&tlb_transfer_accounts);
		static_branch_enable(&tlb_transfer);
	} else {
		static_branch_enable(&tlb_migration);
	}
	pr_info("TLB migration: %s, at most %u entries\n", modes[tlb_migration_state.mode],
		tlb_migration_state.most_words * 4 / 7);
	return 0;
}
early_initcall(tlb_migration_init);

static int show(struct seq_file *file, void *unused)
{
	int name, cpu;

	for (name = 0; name < COUNTS; name++) {
		unsigned long sum = 0;

		for_each_possible_cpu(cpu)
			sum += per_cpu(counts[name], cpu);
		seq_printf(file, "%s %lu\n", count_names[name], sum);
	}
	return 0;
}

static int __init tlb_migration_proc(void)
{
	proc_create_single("tlb_migration", 0444, NULL, show);
	return 0;
}
late_initcall(tlb_migration_proc);
