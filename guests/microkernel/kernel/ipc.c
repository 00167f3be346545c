// Synchronous messages: the general path. The fast path in entry.S leaves the records as this would,
// but for `state`, which it does not touch: whether a thread receives is told by `waits_for`.
#include "kernel.h"

// A thread that blocks to receive may be woken by the fast path, which knows the hot line only and the
// ARM state: bit 0 of the pc keeps it from those that wait in Thumb state.
static void begin_wait(struct thread *thread, u32 from)
{
	thread->state = THREAD_READY;
	thread->waits_for = from;
	if (thread->cpsr & STATUS_THUMB)
		thread->pc |= 1;
}

// Whoever ends it makes the thread ready, which clears waits_for.
static void end_wait(struct thread *thread)
{
	thread->cpsr = thread->pc & 1 ? STATUS_USER | STATUS_THUMB : STATUS_USER;
	thread->pc &= ~1u;
}

static void deliver(struct thread *from, struct thread *to)
{
	bool fault = from->state == THREAD_SENDING_FAULT;
	for (u32 i = 0; i < 6; i++)
		to->r[4 + i] = fault ? (i < 3 ? from->fault[i] : 0) : from->r[4 + i];
	if (to->waits_for)
		end_wait(to);
	to->r[0] = from->id;
}

static struct thread *take_sender(struct thread *receiver, u32 from)
{
	for (struct thread **at = &receiver->senders; *at; at = &(*at)->next)
		if (from == ANY || (*at)->id == from) {
			struct thread *sender = *at;
			*at = sender->next;
			return sender;
		}
	return 0;
}

// The thread receives. A sender whose message is taken may receive in its turn, from a sender that
// waits for it, and so on.
static void receive(struct thread *thread, u32 from)
{
	bool runs = thread == cpu.current;
	for (;;) {
		struct thread *sender = take_sender(thread, from);
		if (!sender && from != ANY && (from == thread->id || !thread_find(from))) {
			thread->r[0] = ERROR_NO_THREAD;
			if (!runs)
				thread_ready(thread);
			return;
		}
		if (!sender) {
			begin_wait(thread, from);
			if (runs)
				cpu.current = 0;
			return;
		}
		deliver(sender, thread);
		if (!runs)
			thread_ready(thread);
		if (sender->state == THREAD_SENDING_FAULT) {
			sender->state = THREAD_FAULTED;
			return;
		}
		if (!sender->then_from) {
			sender->r[0] = 0;
			thread_ready(sender);
			return;
		}
		thread = sender;
		from = sender->then_from;
		runs = false;
	}
}

static void queue(struct thread *sender, struct thread *receiver, enum thread_state state)
{
	struct thread **at = &receiver->senders;
	while (*at)
		at = &(*at)->next;
	*at = sender;
	sender->next = 0;
	sender->state = state;
	sender->sends_to = receiver->id;
	if (sender == cpu.current)
		cpu.current = 0;
}

static bool accepts(const struct thread *receiver, u32 sender)
{
	return receiver->waits_for && (receiver->waits_for == ANY || receiver->waits_for == sender);
}

void ipc(struct thread *self, u32 to, u32 from)
{
	struct thread *receiver = 0;
	if (to) {
		receiver = thread_find(to);
		if (!receiver || receiver == self) {
			self->r[0] = ERROR_NO_THREAD;
			return;
		}
		bool tries_again = receiver->state == THREAD_FAULTED && receiver->pager == self->id;
		if (accepts(receiver, self->id)) {
			deliver(self, receiver);
		} else if (!tries_again) {
			self->then_from = from;
			queue(self, receiver, THREAD_SENDING);
			return;
		}
	}
	self->r[0] = 0;
	if (from)
		receive(self, from); // first, so that a thread that blocks is not queued as ready
	if (receiver)
		thread_ready(receiver);
}

// The thread's pager gets a message in its name; its reply lets the thread try again.
void ipc_fault(struct thread *thread, u32 kind, u32 address)
{
	struct thread *pager = thread_find(thread->pager);
	thread->fault[0] = kind;
	thread->fault[1] = address;
	thread->fault[2] = thread->pc;
	if (!pager || pager == thread) {
		console_print("thread without a pager stopped at ");
		console_hexadecimal(thread->pc);
		console_print(" address ");
		console_hexadecimal(address);
		console_write('\n');
		thread->state = THREAD_FAULTED;
		cpu.current = 0;
	} else if (accepts(pager, thread->id)) {
		thread->state = THREAD_SENDING_FAULT;
		deliver(thread, pager);
		thread->state = THREAD_FAULTED;
		cpu.current = 0;
		thread_ready(pager);
	} else {
		queue(thread, pager, THREAD_SENDING_FAULT);
	}
}

// Takes a thread that sends out of the list of its receiver.
void ipc_withdraw(struct thread *sender)
{
	if (sender->state != THREAD_SENDING && sender->state != THREAD_SENDING_FAULT)
		return;
	struct thread *receiver = thread_find(sender->sends_to);
	for (struct thread **at = &receiver->senders; *at; at = &(*at)->next)
		if (*at == sender) {
			*at = sender->next;
			break;
		}
}

// The thread that had this id is destroyed: nobody shall wait for it any more.
void ipc_gone(struct thread *dead, u32 id)
{
	while (dead->senders) {
		struct thread *sender = take_sender(dead, ANY);
		if (sender->state == THREAD_SENDING_FAULT) {
			sender->state = THREAD_FAULTED;
			continue;
		}
		sender->r[0] = ERROR_NO_THREAD;
		thread_ready(sender);
	}
	for (u32 i = 1; i < THREADS; i++)
		if (threads[i].id && threads[i].waits_for == id) {
			end_wait(&threads[i]);
			threads[i].r[0] = ERROR_NO_THREAD;
			thread_ready(&threads[i]);
		}
}
