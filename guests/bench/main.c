// The first program: runs what `run=` names.
#include "system.h"

static void child(u32 argument)
{
	struct message m = { { 0 } };
	u32 from = ipc_receive(ANY, &m);
	for (;;) {
		m.word[1] = m.word[0] + argument;
		from = ipc_reply_and_wait(from, &m);
	}
}

int main(void)
{
	lab_start();
	print("hello, lab %x\n", LAB[0]);
	struct process p[3];
	for (u32 i = 0; i < 3; i++)
		if (!process_start(&p[i], child, i * 100, 32, self()))
			print("cannot start\n");
	for (u32 i = 0; i < 9; i++) {
		struct message m = { { i } };
		u32 who = ipc_call(p[i % 3].thread, &m);
		print("%u: %u from %s\n", i, m.word[1], who == p[i % 3].thread ? "the right one" : "another");
	}
	for (u32 i = 0; i < 3; i++)
		process_end(&p[i]);
	print("free %u\n", free_frames());
	return 0;
}
