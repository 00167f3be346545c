// Random operations on spaces, each checked against a model of what memory should hold. The root never
// looks into the pages itself: a worker in each space writes, reads and executes them on command, so
// that every check goes through that space's translations and lines.
#include "bench.h"

#define MAX_SPACES 96
#define PLACES 16

// A page as programs see it: all places that show the same object share its contents.
struct object {
	u32 seed;         // what its words are computed from; 0 = fresh zeros
	unsigned short places;
};
struct place {
	unsigned short object; // 0 = nothing is mapped
	unsigned char rights;
};
struct worker {
	u32 space, thread; // 0: no such space
	struct place places[PLACES];
};

static struct worker workers[MAX_SPACES];
static struct object objects[MAX_SPACES * PLACES + 1];
static u32 state, errors, spaces_wanted, places_wanted;

// Addresses in two sections of the relocated 32 MB, in other slots' modified addresses, and above 2 GB.
// None is, in any slot, the second name of a page of its own space. The last two are in one section that is
// only ever shared whole.
static const u32 addresses[PLACES] = {
	0x00040000, 0x00041000, 0x00042000, 0x00043000, 0x00200000, 0x00201000, 0x01ffe000, 0x01fff000,
	0x04000000, 0x0a060000, 0x0a061000, 0x90001000, 0xb0000000, 0xbdffd000, 0x80000000, 0x80005000,
};

enum command { WRITE, CHECK, EXECUTE };

static u32 word_of(u32 seed, u32 i)
{
	return seed ? (seed + i * 0x9e3779b9) * 0x85ebca6b : 0;
}

// Words 0 and 1 of a written page are a function that returns the seed's low byte.
static u32 code_of(u32 seed, u32 i)
{
	return i ? 0xe1a0f00e : 0xe3a00000 | (seed & 255);
}

static void worker(u32 root)
{
	struct message m = { { 0 } };
	for (;;) {
		ipc_call(root, &m);
		volatile u32 *page = (volatile u32 *)m.word[1];
		u32 seed = m.word[2], bad = 0;
		switch (m.word[0]) {
		case WRITE:
			for (u32 i = 0; i < 2; i++)
				page[i] = code_of(seed, i);
			for (u32 i = 8; i < 1024; i += 127)
				page[i] = word_of(seed, i);
			synchronise((u32)page);
			break;
		case CHECK:
			for (u32 i = 0; i < 2; i++)
				bad += page[i] != (seed ? code_of(seed, i) : 0);
			for (u32 i = 8; i < 1024; i += 127)
				bad += page[i] != word_of(seed, i);
			break;
		case EXECUTE:
			bad = ((u32(*)(void))page)() != (seed & 255);
			break;
		}
		m.word[0] = bad;
	}
}

static u32 below(u32 limit)
{
	return (random_next(&state) >> 16) * limit >> 16;
}

static void error(const char *what, u32 w, u32 p)
{
	if (errors++ < 8)
		print("error: %s, space %u address %x\n", what, w, addresses[p]);
}

static u32 object_take(u32 seed)
{
	for (u32 i = 1;; i++)
		if (!objects[i].places) {
			objects[i] = (struct object){ seed, 0 };
			return i;
		}
}

static void show(u32 w, u32 p, u32 object, u32 rights)
{
	struct place *place = &workers[w].places[p];
	objects[object].places++; // first: it may be the object that is shown there already
	if (place->object)
		objects[place->object].places--;
	*place = (struct place){ object, rights };
}

static void hide(u32 w, u32 p)
{
	if (workers[w].places[p].object)
		objects[workers[w].places[p].object].places--;
	workers[w].places[p].object = 0;
}

static void worker_thread(u32 w)
{
	struct message m = { { 0 } };
	extern char stack_top[];
	workers[w].thread = thread_create(workers[w].space, (u32)worker, (u32)stack_top, self(), PRIORITY, self());
	ipc_receive(workers[w].thread, &m);
}

// Does what `command` says in space w and returns the number of wrong words, or -1 after a fault.
static int ask(u32 w, enum command command, u32 p, u32 seed)
{
	struct message m = { { command, addresses[p], seed } };
	ipc_call(workers[w].thread, &m);
	if (m.word[0] < FAULT_DATA)
		return m.word[0];
	if ((m.word[1] ^ addresses[p]) << 7 >> 19) // in the own slot, only these bits can be told
		error("fault at another address", w, p);
	thread_destroy(workers[w].thread);
	worker_thread(w);
	return -1;
}

static void check(u32 w, u32 p)
{
	struct place *place = &workers[w].places[p];
	int result = ask(w, CHECK, p, objects[place->object].seed);
	if (place->object ? result != 0 : result != -1)
		error(place->object ? "wrong contents" : "no fault where nothing is mapped", w, p);
}

static void write(u32 w, u32 p)
{
	struct place *place = &workers[w].places[p];
	u32 seed = random_next(&state);
	bool may = place->object && place->rights & RIGHT_WRITE;
	int result = ask(w, WRITE, p, seed);
	if (result != (may ? 0 : -1))
		error("a write went wrong", w, p);
	if (may)
		objects[place->object].seed = seed;
}

static void execute(u32 w, u32 p)
{
	struct place *place = &workers[w].places[p];
	if (!place->object || !objects[place->object].seed)
		return;
	if (ask(w, EXECUTE, p, objects[place->object].seed) != 0)
		error("wrong instructions", w, p);
}

static void create(u32 w)
{
	struct process process;
	if (!process_start(&process, worker, self(), PRIORITY, self()))
		return; // refused: the scheme has no more
	struct message m = { { 0 } };
	ipc_receive(process.thread, &m);
	workers[w].space = process.space;
	workers[w].thread = process.thread;
}

static void destroy(u32 w)
{
	for (u32 p = 0; p < PLACES; p++)
		hide(w, p);
	space_destroy(workers[w].space);
	workers[w].space = 0;
}

static u32 rights_of(u32 w, u32 p)
{
	return workers[w].places[p].rights;
}

static void share_section(u32 w, u32 other)
{
	for (u32 p = PLACES - 2; p < PLACES; p++)
		if (workers[w].places[p].object && rights_of(w, p) != READ_WRITE)
			return; // a section that is shared has the same rights everywhere
	if (share(workers[w].space, 0x80000000, workers[other].space, 0x80000000, 256, READ_WRITE) < 0)
		return;
	for (u32 p = PLACES - 2; p < PLACES; p++)
		if (workers[w].places[p].object)
			show(other, p, workers[w].places[p].object, READ_WRITE);
}

static void map_or_copy(u32 w, u32 p, u32 other, u32 q, u32 choice)
{
	struct place *from = &workers[other].places[q];
	u32 rights = below(4) ? READ_WRITE : RIGHT_READ;
	switch (choice) {
	case 0: // a fresh page
		if (map(workers[w].space, addresses[p], 1, rights) == 0)
			show(w, p, object_take(0), rights);
		break;
	case 1: // the same page
		if (!from->object || (rights & RIGHT_WRITE && !(from->rights & RIGHT_WRITE)))
			rights = RIGHT_READ;
		if (from->object && share(workers[other].space, addresses[q], workers[w].space, addresses[p], 1, rights) == 0)
			show(w, p, from->object, rights);
		break;
	case 2: // a copy of it
		rights = from->rights;
		if (from->object && copy(workers[other].space, addresses[q], workers[w].space, addresses[p], 1) == 0) {
			u32 seed = objects[from->object].seed;
			show(w, p, object_take(seed), rights);
		}
		break;
	}
}

static void operation(void)
{
	u32 w = below(spaces_wanted), other = below(spaces_wanted), p = below(places_wanted), q = below(places_wanted);
	if (!workers[w].space) {
		create(w);
		return;
	}
	u32 what = below(100);
	if (what < 35)
		check(w, p);
	else if (what < 60)
		write(w, p);
	else if (what < 70)
		execute(w, p);
	else if (what < 76)
		map_or_copy(w, p, w, q, 0);
	else if (!workers[other].space)
		create(other);
	else if (what < 83)
		map_or_copy(w, p, other, q, 1);
	else if (what < 90)
		map_or_copy(w, p, other, q, 2);
	else if (what < 95) {
		unmap(workers[w].space, addresses[p], 1);
		hide(w, p);
	} else if (what < 97 && w != other)
		share_section(w, other);
	else if (what < 98)
		for (u32 i = 0; i < PLACES; i++) // like fork
			map_or_copy(w, i, other, i, 2);
	else if (what == 99 && below(4) == 0)
		destroy(w);
}

u32 random_operations(void)
{
	u32 operations = option_number("operations", 100000);
	state = option_number("seed", 1) * 2654435761u | 1;
	spaces_wanted = option_number("spaces", 24);
	places_wanted = option_number("places", PLACES); // 8: only below 32 MB
	if (places_wanted > PLACES)
		places_wanted = PLACES;
	if (spaces_wanted > MAX_SPACES)
		spaces_wanted = MAX_SPACES;
	u32 free = free_frames();
	for (u32 i = 0; i < operations; i++)
		operation();
	for (u32 w = 0; w < spaces_wanted; w++) {
		if (!workers[w].space)
			continue;
		for (u32 p = 0; p < PLACES; p++)
			check(w, p);
		destroy(w);
	}
	errors += free_frames() < free - 64;
	print("random: %u operations, %u errors\n", operations, errors);
	print("= random free_before=%u free_after=%u", free, free_frames());
	counters_print();
	return errors;
}
