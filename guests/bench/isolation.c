// Programs that try to get at what is not theirs. Each attempt must end in a fault, told to the root as
// their pager, or read nothing of anybody's; and the kernel must go on.
#include "bench.h"

#define SECRET 0x5ec2e700
#define VICTIM_AT 0x00040000
#define VICTIM_CODE_AT 0x00050000
#define SLOTS 95

static u32 errors, others_space;

enum command { READ, WRITE, JUMP, UNDEFINED, PRIVILEGED, BAD_CALLS, FILL, WRITE_RETURN };

static void prisoner(u32 root)
{
	struct message m = { { 0 } };
	for (;;) {
		ipc_call(root, &m);
		volatile u32 *at = (volatile u32 *)m.word[1];
		u32 result = 0;
		switch (m.word[0]) {
		case READ:
			result = *at;
			break;
		case WRITE:
			*at = m.word[2];
			break;
		case JUMP:
			((void (*)(void))at)();
			break;
		case UNDEFINED:
			__asm__ volatile(".word 0xe7f000f0");
			break;
		case PRIVILEGED: // enable every domain; then become the supervisor, which changes nothing
			__asm__ volatile("mcr p15, 0, %0, c3, c0, 0" ::"r"(~0));
			break;
		case BAD_CALLS:
			__asm__ volatile("msr cpsr_c, #0xd3"); // ignored in user mode
			for (u32 number = CALLS; number < 256; number++)
				system_call(number, m.word[1], ~0, 0x1234, ~0, ~0, ~0);
			// What only the first space may do; m.word[2] is another's space.
			result += !is_error(space_create()) + (space_destroy(m.word[2]) >= 0) +
				  (map_device(0, 0x00080000, 0x10100000) >= 0) +
				  (share(m.word[2], VICTIM_AT, 0, VICTIM_AT, 1, RIGHT_READ) >= 0) +
				  (copy(m.word[2], VICTIM_AT, 0, VICTIM_AT, 1) >= 0) +
				  (unmap(m.word[2], VICTIM_AT, 1) >= 0) + (thread_destroy(root) >= 0) +
				  !is_error(thread_create(m.word[2], 0x8000, 0x8000, 0, PRIORITY, 0));
			machine_exit(0);
			for (u32 i = 0; i < 2000; i++) {
				struct message other = { { i } };
				if (!is_error(ipc(i * 0x9e3779b9 | 0x80000000, 0, &other)))
					result++;
			}
			break;
		case FILL: // leaves dirty lines, which most cores fetch only to read, and translations
			for (u32 i = 0; i < 1024; i++) {
				at[i];
				at[i] = SECRET | (i & 255);
			}
			break;
		case WRITE_RETURN: // a function that does nothing
			*at = 0xe1a0f00e;
			synchronise((u32)at);
			break;
		}
		m.word[0] = 0;
		m.word[1] = result;
	}
}

static void thread_start_again(struct process *process)
{
	extern char stack_top[];
	struct message m = { { 0 } };
	process->thread = thread_create(process->space, (u32)prisoner, (u32)stack_top, self(), PRIORITY, self());
	ipc_receive(process->thread, &m);
}

// True if the attempt faulted; else *result is what it read.
static bool faults(struct process *process, enum command command, u32 address, u32 *result)
{
	struct message m = { { command, address, others_space } };
	ipc_call(process->thread, &m);
	*result = m.word[1];
	if (m.word[0] < FAULT_DATA)
		return false;
	thread_destroy(process->thread);
	thread_start_again(process);
	return true;
}

static void must_fault(struct process *process, enum command command, u32 address, const char *what)
{
	u32 result;
	if (faults(process, command, address, &result))
		return;
	errors++;
	print("error: no fault: %s at %x\n", what, address);
}

// Reading may find something of the reader's own (its slot has two names), but no secret.
static void no_secret(struct process *process, u32 address, const char *what)
{
	u32 result;
	if (faults(process, READ, address, &result) || (result & ~255u) != SECRET)
		return;
	errors++;
	print("error: a secret was read: %s at %x\n", what, address);
}

static void start(struct process *process)
{
	struct message m = { { 0 } };
	if (!process_start(process, prisoner, self(), PRIORITY, self())) {
		print("error: cannot start\n");
		machine_exit(3);
	}
	ipc_receive(process->thread, &m);
}

static void fill(struct process *process, u32 address)
{
	u32 result;
	if (map(process->space, address, 1, READ_WRITE) < 0)
		return; // guaranteed FCSE has no such addresses
	if (faults(process, FILL, address, &result)) {
		errors++;
		print("error: the victim cannot write its own page\n");
	}
}

u32 isolation(void)
{
	struct process victim, thief, other;
	u32 result;
	start(&victim);
	start(&thief);
	others_space = victim.space;
	fill(&victim, VICTIM_AT);
	map(victim.space, VICTIM_CODE_AT, 1, READ_WRITE);
	faults(&victim, WRITE_RETURN, VICTIM_CODE_AT, &result);

	print("the kernel's addresses\n");
	must_fault(&thief, READ, 0xfff00000, "kernel text");
	must_fault(&thief, READ, 0xffff0000, "vectors");
	must_fault(&thief, WRITE, 0xfff20000, "kernel data");
	must_fault(&thief, JUMP, 0xffff0008, "vectors");
	must_fault(&thief, READ, 0xffe00000, "devices");
	must_fault(&thief, READ, 0xc0200000, "the window");
	must_fault(&thief, READ, 0xe0000000, "the eviction area");

	print("privileged instructions and nonsense\n");
	must_fault(&thief, UNDEFINED, 0, "undefined instruction");
	must_fault(&thief, PRIVILEGED, 0, "domain access write");
	if (faults(&thief, BAD_CALLS, 0, &result) || result) {
		errors++;
		print("error: bad calls\n");
	}

	print("every slot's addresses, one after the other\n");
	for (u32 slot = 1; slot < SLOTS; slot++) {
		must_fault(&thief, READ, slot << 25 | VICTIM_AT, "another slot");
		faults(&victim, READ, VICTIM_AT, &result); // its lines and translations are in use in between
		must_fault(&thief, WRITE, slot << 25 | VICTIM_AT, "another slot");
		faults(&victim, JUMP, VICTIM_CODE_AT, &result);
		must_fault(&thief, JUMP, slot << 25 | VICTIM_CODE_AT, "another slot");
	}
	faults(&victim, READ, VICTIM_AT, &result);
	if (result != SECRET) {
		errors++;
		print("error: the victim lost its page\n");
	}
	must_fault(&thief, WRITE, 0x7e000000, "an empty slot");

	print("a large space with pages of its own at every slot's addresses\n");
	start(&other);
	for (u32 slot = 1; slot < 40; slot++) {
		u32 address = slot << 25 | VICTIM_AT;
		if (map(other.space, address, 1, READ_WRITE) < 0)
			break;
		faults(&other, READ, address, &result);
		if (faults(&victim, READ, VICTIM_AT, &result) || result != SECRET) {
			errors++;
			print("error: the victim read the large space's page\n");
		}
	}
	process_end(&other);

	print("the same fixed address, mapped by one of them only\n");
	fill(&victim, FIXED_AT);
	must_fault(&thief, READ, FIXED_AT, "a fixed address");
	must_fault(&thief, WRITE, FIXED_AT, "a fixed address");

	print("a page after it is unmapped, and its frame in another space\n");
	fill(&thief, VICTIM_AT + 0x1000);
	faults(&thief, READ, VICTIM_AT + 0x1000, &result);
	unmap(thief.space, VICTIM_AT + 0x1000, 1);
	must_fault(&thief, READ, VICTIM_AT + 0x1000, "an unmapped page");
	must_fault(&thief, JUMP, VICTIM_AT + 0x1000, "an unmapped page");

	print("a page after its rights are taken back\n");
	map(thief.space, VICTIM_AT + 0x2000, 1, READ_WRITE);
	faults(&thief, WRITE, VICTIM_AT + 0x2000, &result);
	map(thief.space, VICTIM_AT + 0x2000, 1, RIGHT_READ);
	must_fault(&thief, WRITE, VICTIM_AT + 0x2000, "a read-only page");

	print("freed spaces: what newcomers find at the same addresses\n");
	process_end(&victim);
	for (u32 i = 0; i < 80; i++) {
		start(&other);
		must_fault(&other, READ, VICTIM_AT, "a freed space's page");
		must_fault(&other, READ, FIXED_AT, "a freed space's page");
		map(other.space, VICTIM_AT, 1, READ_WRITE);
		no_secret(&other, VICTIM_AT, "a fresh page");
		fill(&other, VICTIM_AT);
		process_end(&other);
	}

	print("more spaces than domains: recycled tags\n");
	for (u32 i = 0; i < 20; i++) {
		start(&processes[i]);
		if (i & 1)
			fill(&processes[i], VICTIM_AT);
	}
	for (u32 round = 0; round < 3; round++)
		for (u32 i = 0; i < 20; i++) {
			if (!(i & 1))
				must_fault(&processes[i], READ, VICTIM_AT, "another space's page");
			else if (faults(&processes[i], READ, VICTIM_AT, &result) || result != SECRET)
				errors++;
			for (u32 slot = 1; slot < SLOTS && round == 2; slot += 7)
				must_fault(&processes[i & ~1u], READ, slot << 25 | VICTIM_AT, "another slot");
		}
	for (u32 i = 0; i < 20; i++)
		process_end(&processes[i]);

	print("more spaces than PIDs, or as many as there may be: shared slots\n");
	u32 count = 0;
	while (count < 2 * SLOTS + 10 && process_start(&processes[count], prisoner, self(), PRIORITY, self())) {
		struct message m = { { 0 } };
		ipc_receive(processes[count].thread, &m);
		if (count & 1)
			fill(&processes[count], VICTIM_AT);
		count++;
	}
	// Slots are taken in turn: the space with the same one is half of them away, give or take some.
	for (u32 i = 0; i < count; i++)
		if (!(i & 1))
			must_fault(&processes[i], READ, VICTIM_AT, "another space's page");
		else if (faults(&processes[i], READ, VICTIM_AT, &result) || result != SECRET)
			errors++;
	for (u32 i = 0; i < count; i += 2)
		for (u32 apart = 59; apart < 130; apart += 2) {
			if (i + apart >= count)
				break;
			faults(&processes[i + apart], READ, VICTIM_AT, &result);
			must_fault(&processes[i], READ, VICTIM_AT, "another space's page");
		}

	print("isolation: %u errors\n", errors);
	return errors;
}

// The question of mechanisms of this family: must the TLB be flushed when a clean domain is recycled?
// A space touches an address that it has not mapped, but another has: the walker may load the
// translation before the domain is checked. The other's domain, clean, is then recycled for the first.
u32 recycled(void)
{
	struct process victim, thief, filler;
	u32 result, stolen = 0, tries = option_number("tries", 4);
	for (u32 attempt = 0; attempt < tries; attempt++) {
		start(&victim);
		fill(&victim, FIXED_AT);
		start(&filler);
		// Flush everything, so that the victim's domain is clean while its entry stays: a collision
		// of two others does.
		for (u32 i = 0; i < 2; i++) {
			start(&processes[i]);
			fill(&processes[i], FIXED_AT + 0x100000);
		}
		faults(&filler, READ, FIXED_AT, &result); // the probe: a translation with the victim's domain
		// Take all other domains, so that the victim's is the clean one to be recycled.
		for (u32 i = 2; i < 18; i++) {
			start(&processes[i]);
			if (!faults(&processes[i], READ, FIXED_AT, &result))
				stolen += (result & ~255u) == SECRET;
			if (i % 4 == 0)
				faults(&filler, READ, FIXED_AT, &result);
		}
		start(&thief);
		if (!faults(&thief, READ, FIXED_AT, &result))
			stolen += (result & ~255u) == SECRET;
		process_end(&thief);
		for (u32 i = 0; i < 18; i++)
			process_end(&processes[i]);
		process_end(&filler);
		process_end(&victim);
	}
	print("recycled: %u secrets read\n", stolen);
	print("= recycled stolen=%u clean=%u dirty=%u\n", stolen, counter(COUNT_RECYCLED_CLEAN), counter(COUNT_RECYCLED_DIRTY));
	return stolen;
}
