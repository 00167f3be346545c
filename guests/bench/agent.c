// A program that obeys the root, in a space of its own: the root orders, and is told the result or the fault.
#include "bench.h"

void agent_loop(u32 root, u32 (*obey)(struct message *order))
{
	struct message m = { { 0 } };
	for (;;) {
		ipc_call(root, &m);
		u32 result = obey(&m);
		m.word[0] = 0;
		m.word[1] = result;
	}
}

void agent_start(struct process *process, void (*agent)(u32 root))
{
	struct message m = { { 0 } };
	if (!process_start(process, agent, self(), PRIORITY, self())) {
		print("error: a process was refused\n");
		machine_exit(3);
	}
	ipc_receive(process->thread, &m);
}

bool agent_ask(struct process *process, void (*agent)(u32 root), u32 command, u32 address, u32 value, u32 *result)
{
	extern char stack_top[];
	struct message m = { { command, address, value } };
	ipc_call(process->thread, &m);
	*result = m.word[1];
	if (m.word[0] < FAULT_DATA)
		return true;
	thread_destroy(process->thread);
	process->thread = thread_create(process->space, (u32)agent, (u32)stack_top, self(), PRIORITY, self());
	ipc_receive(process->thread, &m);
	return false;
}
