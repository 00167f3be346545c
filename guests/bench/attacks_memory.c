// Further attacks of attacks.c: on pages that several spaces or sections have.
#include "bench.h"

#define SECRET 0x5ec2e700
#define NEVER 0xffff0000 // no thread has this id

enum command { READ, WRITE, FILL, OTHERS, MAP_AND_UNMAP };

static u32 obey(struct message *order)
{
	volatile u32 *at = (volatile u32 *)order->word[1];
	u32 value = order->word[2], others = 0;
	switch (order->word[0]) {
	case READ:
		return *at;
	case WRITE:
		*at;
		*at = value;
		break;
	case FILL: // dirty lines: most cores fetch a line only to read it
		for (u32 i = 0; i < PAGE_BYTES / 4; i++) {
			at[i];
			at[i] = value;
		}
		break;
	case OTHERS: // how many words of the page are others
		for (u32 i = 0; i < PAGE_BYTES / 4; i++)
			others += at[i] != value;
		break;
	case MAP_AND_UNMAP: // a page of the program's own for a while: how many words of it are somebody's
		map(0, (u32)at, 1, READ_WRITE);
		for (u32 i = 0; i < PAGE_BYTES / 4; i++) {
			others += at[i] != 0;
			at[i] = value;
		}
		unmap(0, (u32)at, 1);
		break;
	}
	return others;
}

static void agent(u32 root)
{
	agent_loop(root, obey);
}

static void start_agents(u32 first, u32 end)
{
	for (u32 i = first; i < end; i++)
		agent_start(&processes[i], agent);
}

// A fault gives no result that an attack waits for.
static u32 ask(struct process *process, enum command command, u32 address, u32 value)
{
	u32 result;
	return agent_ask(process, agent, command, address, value, &result) ? result : 0xffffffff;
}

// A program has had a page above 32 MB. Later it maps one where another's low pages are in the caches.
u32 regrown(void)
{
	struct process *victim = &processes[0], *thief = &processes[1];
	u32 through = 0;
	start_agents(0, 2);
	map(victim->space, LOW_AT, 1, READ_WRITE);
	if (ask(thief, MAP_AND_UNMAP, FIXED_AT, 1))
		return 0; // guaranteed FCSE refuses
	for (u32 slot = 1; slot < 6; slot++) {
		ask(victim, FILL, LOW_AT, SECRET);
		through += ask(thief, MAP_AND_UNMAP, slot << 25 | LOW_AT, 1) != 0;
		through += ask(victim, OTHERS, LOW_AT, SECRET) != 0;
	}
	return through;
}

// A section that has one page 256 times is shared as one table with 256 spaces, each of which unmaps a page and so
// gets a table of its own: 65,536 mappings.
u32 many_tables(void)
{
	struct process *owner = &processes[0], *victim = &processes[1];
	start_agents(0, 2);
	if (map(owner->space, FIXED_AT, 1, READ_WRITE) < 0)
		return 0;
	ask(owner, WRITE, FIXED_AT, 1);
	for (u32 i = 1; i < SECTION_PAGES; i++)
		share(owner->space, FIXED_AT, owner->space, FIXED_AT + i * PAGE_BYTES, 1, READ_WRITE);
	for (u32 i = 0; i < SECTION_PAGES; i++) {
		u32 space = space_create();
		if (is_error(space) || share(owner->space, FIXED_AT, space, FIXED_AT, SECTION_PAGES, READ_WRITE) < 0 ||
		    unmap(space, FIXED_AT, 1) < 0)
			break;
	}
	map(victim->space, LOW_AT, 4, READ_WRITE); // of frames that are free
	for (u32 i = 0; i < 4; i++)
		ask(victim, FILL, LOW_AT + i * PAGE_BYTES, SECRET);
	start_agents(8, 32); // takes all domains, and writes those lines back
	return ask(owner, READ, FIXED_AT, 0) != 1;
}

// Between two pages of the end of a space that has written shared pages, another thread copies one and shares one on
// to another address, from a sharer that has none of their lines.
static void sharer_on(u32 root)
{
	struct process *ending = &processes[0], *sharer = &processes[1], *third = &processes[2], *other = &processes[3];
	u32 shared_at = FIXED_AT + PAGE_BYTES, collision_at = FIXED_AT + SECTION_BYTES;
	struct message m = { { 0 } };
	start_agents(0, 4);
	map(ending->space, LOW_AT, 1, READ_WRITE);
	for (u32 i = 0; i < 300; i++) // its end takes long before it comes to the section, and evicts few lines
		share(ending->space, LOW_AT, ending->space, 0x00200000 + i * PAGE_BYTES, 1, RIGHT_READ);
	map(ending->space, FIXED_AT, 2, READ_WRITE);
	share(ending->space, FIXED_AT, sharer->space, FIXED_AT, 2, READ_WRITE);
	map(third->space, collision_at, 1, READ_WRITE);
	map(other->space, collision_at, 1, READ_WRITE);
	ask(third, WRITE, collision_at, 1);
	ask(other, WRITE, collision_at, 1); // which flushes: from now on the sharer has no lines
	ask(ending, FILL, FIXED_AT, SECRET);
	ask(ending, FILL, shared_at, SECRET);
	ipc_send(root, &m);
	sleep_until(clock_microseconds() + 500);
	copy(sharer->space, FIXED_AT, third->space, LOW_AT, 1);
	share(sharer->space, shared_at, third->space, LOW_AT + PAGE_BYTES, 1, READ_WRITE);
	u32 through = ask(third, OTHERS, LOW_AT, SECRET) != 0;
	through += ask(third, OTHERS, LOW_AT + PAGE_BYTES, SECRET) != 0;
	ask(third, FILL, LOW_AT + PAGE_BYTES, 5);
	ipc_send(root, &m); // it waits for the space's end
	m.word[0] = through + (ask(sharer, OTHERS, shared_at, 5) != 0);
	ipc_send(root, &m);
	ipc_receive(NEVER, &m);
}

u32 interrupted_share(void)
{
	struct message m;
	u32 stack = 0x00700000;
	if (map(0, FIXED_AT, 1, READ_WRITE) < 0)
		return 0;
	unmap(0, FIXED_AT, 1);
	map(0, stack, 1, READ_WRITE);
	u32 thread = thread_create(0, (u32)sharer_on, stack + PAGE_BYTES, self(), PRIORITY + 8, self());
	ipc_receive(thread, &m);
	process_end(&processes[0]);
	ipc_receive(thread, &m);
	ipc_receive(thread, &m);
	return m.word[0];
}
