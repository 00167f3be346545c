// Situations that random operations seldom bring about. In each of them one maintenance operation of
// the kernel is all that stands between a program and stale data, instructions or translations.
#include "bench.h"

#define DATA_AT 0x00040000
#define CODE_AT 0x00060000
#define FILLER_AT 0x00200000
#define FILLER_PAGES 7168 // up to 30 MB; memory ends before
#define LINE_WORDS 8

static u32 errors;

enum command { READ, WRITE, WRITE_CODE, EXECUTE, MAP, UNMAP, GROW, ANY_WRITTEN };

// Leaves a dirty line: most cores fetch a line only to read it.
static void write(volatile u32 *at, u32 value)
{
	*at;
	*at = value;
}

// A function that returns `value`, in every line of a page: wherever other code lies, some of the lines
// will stay in the instruction cache.
static void write_code(volatile u32 *page, u32 value)
{
	for (u32 i = 0; i < PAGE_BYTES / 4; i += LINE_WORDS) {
		page[i] = 0xe3a00000 | value; // mov r0, #value
		page[i + 1] = 0xe1a0f00e;     // mov pc, lr
	}
	synchronise((u32)page);
}

// How many of them do not return it.
static u32 execute(volatile u32 *page, u32 value)
{
	u32 wrong = 0;
	for (u32 i = 0; i < PAGE_BYTES / 4; i += LINE_WORDS)
		wrong += ((u32(*)(void))(page + i))() != value;
	return wrong;
}

// Grows without a switch before or after: its low pages must still be its own, at their new place, and
// the new page, which may lie where its old slot was, must be empty.
static u32 grow(volatile u32 *at, u32 value)
{
	volatile u32 *data = (volatile u32 *)DATA_AT;
	write(data, value);
	bool grown = map(0, (u32)at, 1, READ_WRITE) == 0; // guaranteed FCSE refuses
	u32 wrong = *data != value;
	wrong += execute((volatile u32 *)CODE_AT, value);
	if (grown)
		wrong += *at != 0;
	return wrong;
}

static u32 any_written(volatile u32 *from, u32 pages)
{
	u32 found = 0;
	for (u32 i = 0; i < pages * PAGE_BYTES / 4; i += LINE_WORDS)
		found |= from[i];
	return found;
}

static u32 obey(struct message *order)
{
	const u32 *word = order->word;
	volatile u32 *at = (volatile u32 *)word[1];
	u32 value = word[2], result = 0;
	switch (word[0]) {
	case READ:
		result = *at;
		break;
	case WRITE:
		write(at, value);
		break;
	case WRITE_CODE:
		write_code(at, value);
		break;
	case EXECUTE:
		result = execute(at, value);
		break;
	case MAP:
		map(0, (u32)at, 1, READ_WRITE);
		break;
	case UNMAP:
		unmap(0, (u32)at, 1);
		break;
	case GROW:
		result = grow(at, value);
		break;
	case ANY_WRITTEN:
		result = any_written(at, value);
		break;
	}
	return result;
}

static void agent(u32 root)
{
	agent_loop(root, obey);
}

static void start(struct process *process)
{
	agent_start(process, agent);
}

static bool ask(struct process *process, enum command command, u32 address, u32 value, u32 *result)
{
	return agent_ask(process, agent, command, address, value, result);
}

static void expect(struct process *process, enum command command, u32 address, u32 value, u32 expected)
{
	u32 result;
	if (ask(process, command, address, value, &result) && result == expected)
		return;
	errors++;
	print("error: command %u at %x\n", command, address);
}

static void order(struct process *process, enum command command, u32 address, u32 value)
{
	expect(process, command, address, value, 0);
}

// A space that grows itself past 32 MB, where another one, grown and shrunk, left its lines.
static void growth(void)
{
	for (u32 slot = 1; slot < 6; slot++) { // its own slot is among them
		struct process before, grower;
		start(&before);
		map(before.space, DATA_AT, 1, READ_WRITE);
		map(before.space, CODE_AT, 1, READ_WRITE);
		order(&before, MAP, FIXED_AT, 0);
		order(&before, UNMAP, FIXED_AT, 0);
		order(&before, WRITE_CODE, CODE_AT, 2 * slot);
		start(&grower);
		map(grower.space, DATA_AT, 1, READ_WRITE);
		map(grower.space, CODE_AT, 1, READ_WRITE);
		order(&grower, WRITE_CODE, CODE_AT, 2 * slot + 1);
		order(&before, WRITE, DATA_AT, 2 * slot);
		expect(&before, EXECUTE, CODE_AT, 2 * slot, 0);
		expect(&grower, GROW, slot << 25 | DATA_AT, 2 * slot + 1, 0);
		process_end(&grower);
		process_end(&before);
	}
}

// Where two spaces have different code: above 32 MB, so that it is one modified address, or under
// guaranteed FCSE, which refuses that, in slots of their own.
static u32 code_in_both(struct process *first, struct process *second)
{
	start(first);
	start(second);
	u32 at = map(first->space, FIXED_AT, 1, READ_WRITE) == 0 ? FIXED_AT : CODE_AT;
	map(first->space, at, 1, READ_WRITE);
	map(second->space, at, 1, READ_WRITE);
	order(first, WRITE_CODE, at, 11);
	expect(first, EXECUTE, at, 11, 0);
	order(second, WRITE_CODE, at, 22);
	expect(second, EXECUTE, at, 22, 0);
	return at;
}

// The domain of a space whose instructions are cached is recycled; then the other runs there.
static void recycled_code(void)
{
	struct process first, second;
	u32 at = code_in_both(&first, &second);
	for (u32 i = 0; i < 16; i++)
		start(&processes[i]); // more than there are domains
	expect(&first, EXECUTE, at, 11, 0);
	for (u32 i = 0; i < 16; i++)
		process_end(&processes[i]);
	process_end(&first);
	process_end(&second);
}

// A page that two spaces have at one address gets a second address, from the one of them that did not
// write to it and has not run since the caches were last flushed.
static void second_address(void)
{
	struct process writer, idle, reader, other;
	start(&writer);
	start(&idle);
	start(&reader);
	start(&other);
	u32 at = map(writer.space, FIXED_AT, 1, READ_WRITE) == 0 ? FIXED_AT : DATA_AT;
	map(writer.space, at, 1, READ_WRITE);
	share(writer.space, at, idle.space, at, 1, READ_WRITE);
	// Two that collide, which flushes.
	map(reader.space, at + 0x100000, 1, READ_WRITE);
	map(other.space, at + 0x100000, 1, READ_WRITE);
	order(&reader, WRITE, at + 0x100000, 1);
	order(&other, WRITE, at + 0x100000, 1);
	order(&writer, WRITE, at, 33);
	share(idle.space, at, reader.space, at + 0x200000, 1, READ_WRITE);
	expect(&reader, READ, at + 0x200000, 0, 33);
	process_end(&writer);
	process_end(&idle);
	process_end(&reader);
	process_end(&other);
}

static u32 fill(u32 space, u32 from)
{
	while (from < FILLER_PAGES && map(space, FILLER_AT + from * PAGE_BYTES, 1, READ_WRITE) == 0)
		from++;
	return from;
}

// Memory runs out just after a space was destroyed that left lines and translations behind. Its frames
// go to others then, its tag too, and its addresses.
static void exhaustion(void)
{
	struct process filler, destroyed, heir;
	start(&filler);
	u32 pages = fill(filler.space, 0) - 300, result;
	unmap(filler.space, FILLER_AT + pages * PAGE_BYTES, 300);
	u32 at = map(filler.space, FIXED_AT, 1, READ_WRITE) == 0 ? FIXED_AT : CODE_AT;
	map(filler.space, at, 1, READ_WRITE);
	order(&filler, WRITE_CODE, at, 44);
	start(&destroyed);
	for (u32 i = 0; i < 4; i++)
		map(destroyed.space, at + i * PAGE_BYTES, 1, READ_WRITE);
	order(&destroyed, WRITE_CODE, at, 55);
	expect(&destroyed, EXECUTE, at, 55, 0);
	for (u32 i = 0; i < 4 * PAGE_BYTES; i += 4 * LINE_WORDS)
		order(&destroyed, WRITE, at + i, 0x5ec2e700);
	process_end(&destroyed);
	u32 filled = fill(filler.space, pages);
	expect(&filler, EXECUTE, at, 44, 0);
	for (u32 round = 0; round < 2; round++) // the first lets the old lines out
		expect(&filler, ANY_WRITTEN, FILLER_AT + pages * PAGE_BYTES, filled - pages, 0);
	unmap(filler.space, FILLER_AT, 40);
	start(&heir);
	if (ask(&heir, READ, at + PAGE_BYTES, 0, &result)) {
		errors++;
		print("error: no fault at %x\n", at + PAGE_BYTES);
	}
	process_end(&heir);
	process_end(&filler);
}

u32 stale(void)
{
	growth();
	recycled_code();
	second_address();
	exhaustion();
	print("stale: %u errors\n", errors);
	return errors;
}
