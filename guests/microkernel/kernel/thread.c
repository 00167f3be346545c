// Threads, the ready queues and time.
#include "space/space.h"

#define SLICE_MICROSECONDS 10000

struct ready_queue ready[PRIORITIES];
struct thread *sleepers; // by the time they wake
struct thread *free_threads; // by when they were destroyed, so that an id comes again late
static struct thread **free_threads_end = &free_threads;
static u32 slice_ends;
static bool had_turn[PRIORITIES]; // the first of the queue ran in this slice and was preempted

u32 thread_priority(const struct thread *thread)
{
	return (thread->id & ID_PRIORITY_MASK) >> 10;
}

struct thread *thread_find(u32 id)
{
	struct thread *thread = &threads[id & (THREADS - 1)];
	return thread != &threads[0] && id && thread->id == id ? thread : 0;
}

static void ready_priority_update(void)
{
	u32 best = cpu.ready_priority >> 10;
	while (best && !ready[best].first)
		best--;
	cpu.ready_priority = best << 10;
}

static void enqueue(struct thread *thread, bool front)
{
	u32 priority = thread_priority(thread);
	thread->state = THREAD_READY;
	thread->waits_for = 0;
	if (!ready[priority].first) {
		ready[priority].first = ready[priority].last = thread;
		thread->next = 0;
	} else if (front) {
		thread->next = ready[priority].first;
		ready[priority].first = thread;
	} else {
		thread->next = 0;
		ready[priority].last->next = thread;
		ready[priority].last = thread;
	}
	if (priority << 10 > cpu.ready_priority)
		cpu.ready_priority = priority << 10;
}

static void preempt(void)
{
	enqueue(cpu.current, true);
	had_turn[thread_priority(cpu.current)] = true;
	cpu.current = 0;
}

// The thread may run; it gets the processor at once if it is better than the one that has it.
void thread_ready(struct thread *thread)
{
	u32 to_beat = cpu.current ? thread_priority(cpu.current) + 1 : cpu.ready_priority >> 10;
	if (thread_priority(thread) < to_beat) {
		enqueue(thread, false);
		return;
	}
	if (cpu.current)
		preempt();
	thread->state = THREAD_READY;
	thread->waits_for = 0;
	cpu.current = thread;
}

static void dequeue(struct thread *thread)
{
	u32 priority = thread_priority(thread);
	struct thread *before = 0;
	for (struct thread *t = ready[priority].first; t; before = t, t = t->next)
		if (t == thread) {
			if (before) {
				before->next = t->next;
			} else {
				ready[priority].first = t->next;
				had_turn[priority] = false;
			}
			if (ready[priority].last == t)
				ready[priority].last = before;
			ready_priority_update();
			return;
		}
}

static void slice_begin(void)
{
	slice_ends = clock_now() + SLICE_MICROSECONDS;
}

// Who ran in it goes behind its equals, of whatever priority it is: a better thread that wakes again and again
// does not keep the same one of several worse ones in front.
static void slice_end(void)
{
	for (u32 priority = 0; priority < PRIORITIES; priority++)
		if (had_turn[priority]) {
			struct thread *first = ready[priority].first;
			dequeue(first);
			enqueue(first, false);
		}
	slice_begin();
}

static void timer_update(void)
{
	u32 now = clock_now();
	int wait = slice_ends - now;
	if (sleepers && (int)(sleepers->wakes_at - now) < wait)
		wait = sleepers->wakes_at - now;
	timer_set(wait > 0 ? wait : 1);
}

static void wake_sleepers(void)
{
	u32 now = clock_now();
	while (sleepers && (int)(sleepers->wakes_at - now) <= 0) {
		struct thread *thread = sleepers;
		sleepers = thread->next;
		thread->r[0] = now;
		thread_ready(thread);
	}
}

// Chooses who runs next, when the current thread cannot.
void schedule(void)
{
	while (!cpu.current) {
		if (cpu.ready_priority || ready[0].first) {
			struct thread *best = ready[cpu.ready_priority >> 10].first;
			dequeue(best);
			cpu.current = best;
			break;
		}
		core_idle();
		if (timer_acknowledge()) {
			wake_sleepers();
			slice_begin(); // nobody waits for the end of one
			timer_update();
		}
	}
}

// The timer's interrupt: somebody's sleep is over, or the slice.
void thread_tick(void)
{
	timer_acknowledge();
	struct thread *was = cpu.current;
	wake_sleepers();
	if ((int)(slice_ends - clock_now()) <= 0) {
		if (cpu.current == was) // else it is preempted already
			preempt();
		slice_end();
	}
	timer_update();
}

void thread_yield(void)
{
	enqueue(cpu.current, false);
	cpu.current = 0;
}

void thread_sleep_until(u32 time)
{
	struct thread *self = cpu.current, **at = &sleepers;
	u32 now = clock_now();
	self->wakes_at = time;
	self->state = THREAD_SLEEPING;
	// By the time that is left: two times may be farther apart than a signed difference tells.
	while (*at && (int)((*at)->wakes_at - now) <= (int)(time - now))
		at = &(*at)->next;
	self->next = *at;
	*at = self;
	cpu.current = 0;
	timer_update();
}

static void to_free_threads(struct thread *thread)
{
	thread->next = 0;
	*free_threads_end = thread;
	free_threads_end = &thread->next;
}

struct thread *thread_create(struct space *space, u32 pc, u32 sp, u32 argument, u32 priority, u32 pager)
{
	struct thread *thread = free_threads;
	if (!thread)
		return 0;
	free_threads = thread->next;
	if (!free_threads)
		free_threads_end = &free_threads;
	u32 generation = (thread->generation + 1) & 0x7fff;
	memset32(thread, 0, sizeof *thread);
	thread->generation = generation;
	thread->id = generation << ID_GENERATION_SHIFT | priority << 10 | (u32)(thread - threads);
	thread->fast_switch = space->fast_switch;
	thread->pid = space->pid << 25;
	thread->pc = pc & ~3;
	thread->sp = sp;
	thread->r[0] = argument;
	thread->cpsr = STATUS_USER;
	thread->pager = pager;
	thread->space = space;
	thread->next_in_space = space->threads;
	space->threads = thread;
	thread_ready(thread);
	return thread;
}

// First the thread leaves every queue and cannot be found any more; only then do others learn that it is
// gone, so that nothing they do can make it ready again.
void thread_destroy(struct thread *thread)
{
	u32 id = thread->id;
	if (thread == cpu.current)
		cpu.current = 0;
	else if (thread->state == THREAD_READY)
		dequeue(thread);
	else if (thread->state == THREAD_SLEEPING)
		for (struct thread **at = &sleepers; *at; at = &(*at)->next)
			if (*at == thread) {
				*at = thread->next;
				break;
			}
	ipc_withdraw(thread);
	for (struct thread **at = &thread->space->threads; *at; at = &(*at)->next_in_space)
		if (*at == thread) {
			*at = thread->next_in_space;
			break;
		}
	thread->id = 0;
	thread->waits_for = 0;
	thread->state = THREAD_FREE;
	thread->space = 0;
	ipc_gone(thread, id);
	to_free_threads(thread);
}

void thread_start(void)
{
	for (u32 i = 1; i < THREADS; i++)
		to_free_threads(&threads[i]);
	slice_begin();
	timer_update();
}
