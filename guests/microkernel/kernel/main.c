// Start-up, options, system calls and faults: where each exception goes.
#include "core/core.h"
#include "maintenance.h"
#include "space/space.h"

char command_line[256];
u32 disabled_maintenance; // an enum maintenance
const struct scheme *scheme;
u32 counters[COUNTERS];
static struct space *first_space;

extern const char user_image[], user_image_end[];
extern u32 vector_supervisor_call[], fast_path_dirty[], fast_path_translations[], fast_path_flush_data[],
	fast_path_flush_instructions[], fast_path_flush_translations[];
void exception_stacks(u32 *scratch);
void main(void);
void system_call(void);
void interrupted(void);
void faulted(u32 kind);

static const struct scheme *const schemes[] = { &scheme_flush, &scheme_fass, &scheme_fass_shared,
						&scheme_fcse_guaranteed, &scheme_fcse_best_effort };

void panic(const char *why, u32 value)
{
	console_print("kernel: ");
	console_print(why);
	console_write(' ');
	console_hexadecimal(value);
	console_write('\n');
	machine_exit(101);
}

// The text after "name=" on the command line, or 0.
static const char *option_text(const char *name)
{
	for (const char *at = command_line; *at; at++) {
		if (at != command_line && at[-1] != ' ')
			continue;
		u32 length = 0;
		while (name[length] && at[length] == name[length])
			length++;
		if (!name[length] && at[length] == '=')
			return at + length + 1;
	}
	return 0;
}

bool option(const char *name, const char *value)
{
	const char *text = option_text(name);
	if (!text)
		return false;
	while (*value && *text == *value)
		text++, value++;
	return !*value && (!*text || *text == ' ');
}

// Writes an instruction of the kernel. The vectors are cached as instructions and as data.
static void patch(u32 *at, u32 instruction)
{
	*at = instruction;
	core->clean_page_data((u32)at);
	core->invalidate_instructions();
}

#define NO_OPERATION 0xe1a00000 // mov r0, r0

static void use_fast_path(void)
{
	static const struct {
		u32 maintenance, *instruction;
	} operations[] = {
		{ FASS_DIRTY_FAST_PATH, fast_path_dirty },
		{ FCSE_TRANSLATIONS_FAST_PATH, fast_path_translations },
		{ FLUSH_DATA_FAST_PATH, fast_path_flush_data },
		{ FLUSH_INSTRUCTIONS_FAST_PATH, fast_path_flush_instructions },
		{ FLUSH_TRANSLATIONS_FAST_PATH, fast_path_flush_translations },
	};
	for (u32 i = 0; i < sizeof operations / sizeof *operations; i++)
		if (!enabled(operations[i].maintenance))
			patch(operations[i].instruction, NO_OPERATION);
	cpu.clean_and_invalidate_data = core->clean_and_invalidate_data;
	cpu.invalidate_instructions = core->invalidate_instructions;
	void (*target)(void) = option("path", "general") ? enter_general : scheme->fast_path;
	u32 offset = (u32)target - (u32)vector_supervisor_call - 8;
	patch(vector_supervisor_call, 0xea000000 | (offset >> 2 & 0xffffff));
}

// Before there are threads nobody waits for an interrupt.
static bool map_all(struct space *space, u32 address, u32 pages)
{
	int result;
	do
		result = memory_map(space, &address, &pages, RIGHT_READ | RIGHT_WRITE);
	while (result == AGAIN);
	return result == 0;
}

// `mutant=` names an operation of maintenance.h.
static bool mutant_choose(void)
{
	static const char *const names[] = { "NOTHING", MAINTENANCE_LIST(MAINTENANCE_NAME) };
	for (u32 i = 0; i < MAINTENANCES; i++)
		if (option("mutant", names[i]))
			disabled_maintenance = i;
	return disabled_maintenance || option("mutant", "NOTHING") || !option_text("mutant");
}

static const char options_missing[] = "give scheme=flush|fass|fass_shared|fcse_guaranteed|fcse_best_effort; only 249 characters are read\n";

void main(void)
{
	device_start();
	core_find();
	exception_stacks(cpu.scratch);
	command_line_read(command_line, sizeof command_line);
	if (!mutant_choose()) {
		console_print("no such mutant=: kernel/maintenance.h lists them\n");
		machine_exit(2);
	}
	for (u32 i = 0; i < sizeof schemes / sizeof *schemes; i++)
		if (option("scheme", schemes[i]->name))
			scheme = schemes[i];
	if (!scheme) {
		console_print(options_missing);
		machine_exit(2);
	}
	memory_start();
	if (scheme->start)
		scheme->start();
	thread_start();
	use_fast_path();

	// The first space: the user image's text, its data, and a stack; see user/user.lds.
	const u32 *header = (const u32 *)user_image; // entry, text start, text end, data start, data end
	struct space *root = first_space = space_create();
	u32 text_pages = (header[2] - header[1]) / PAGE_BYTES, data_pages = (header[4] - header[3]) / PAGE_BYTES;
	u32 stack_pages = (header[6] - header[5]) / PAGE_BYTES;
	if (!memory_load(root, header[1], user_image, text_pages, RIGHT_READ) ||
	    !memory_load(root, header[3], user_image + (header[3] - header[1]), data_pages, RIGHT_READ | RIGHT_WRITE) ||
	    !map_all(root, header[5], stack_pages))
		panic("no memory for the user image", 0);
	thread_create(root, header[0], header[6], 0, 32, 0);
	schedule();
	scheme->switch_to(0, cpu.current->space);
	resume();
}

// The fast path switches spaces without telling anybody: the current thread's space is the active one.
static void enter(void)
{
	cpu.active = cpu.current->space;
}

static void leave(const struct thread *caller)
{
	if (!cpu.current)
		schedule();
	struct space *next = cpu.current->space;
	if (next != cpu.active) {
		counters[COUNT_SWITCHES]++;
		scheme->switch_to(cpu.active, next);
		cpu.active = next;
	}
#ifdef INVARIANTS
	invariants_check(caller->r);
#else
	(void)caller;
#endif
}

static struct space *space_of(u32 id)
{
	struct space *space = id ? space_find(id) : cpu.current->space;
	return space && !space->dying ? space : 0;
}

// The first space may do everything. Other programs may only change their own space (0) and threads.
static bool permitted(const struct thread *self, const u32 *r)
{
	if (self->space == first_space)
		return true;
	switch (r[12]) {
	case CALL_SPACE_CREATE:
	case CALL_SPACE_DESTROY:
	case CALL_DEVICE:
	case CALL_EXIT:
		return false;
	case CALL_SHARE:
	case CALL_COPY:
		return r[0] == 0 && r[2] == 0;
	case CALL_MAP:
	case CALL_UNMAP:
		return r[0] == 0;
	case CALL_THREAD_CREATE: // and nobody a better priority than their own
		return r[0] == 0 && r[5] <= thread_priority(self);
	case CALL_THREAD_DESTROY: {
		struct thread *victim = thread_find(r[0]);
		return victim && victim->space == self->space;
	}
	}
	return true;
}

static u32 system_call_result(struct thread *self, u32 *r)
{
	if (!permitted(self, r))
		return ERROR_REFUSED;
	struct space *space = space_of(r[0]);
	switch (r[12]) {
	case CALL_SPACE_CREATE:
		space = space_create();
		return space ? space->id : (u32)ERROR_REFUSED;
	case CALL_SYNCHRONISE:
		memory_synchronise(self->space, r[0]);
		return 0;
	case CALL_YIELD:
		thread_yield();
		return 0;
	case CALL_SLEEP:
		thread_sleep_until(r[0]);
		return 0;
	case CALL_CLOCK:
		return clock_now();
	case CALL_PRINT:
		console_write(r[0]);
		return 0;
	case CALL_EXIT:
		machine_exit(r[0]);
	case CALL_FREE_FRAMES:
		return memory_free_frames();
	case CALL_COUNTER:
		if (r[0] >= COUNTERS)
			return 0;
		return counters[r[0]] + (r[0] == COUNT_FLUSHES ? cpu.fast_flushes : 0);
	case CALL_SELF:
		return self->id;
	case CALL_OPTION:
		return r[0] < sizeof command_line ? command_line[r[0]] : 0;
	case CALL_THREAD_DESTROY: {
		struct thread *victim = thread_find(r[0]);
		if (!victim)
			return ERROR_NO_THREAD;
		thread_destroy(victim);
		return 0;
	}
	case CALL_SPACE_DESTROY: {
		struct space *victim = space_find(r[0]); // it may be dying already
		return !victim || victim == self->space ? ERROR_INVALID : space_destroy(victim);
	}
	}
	if (!space)
		return ERROR_INVALID;
	switch (r[12]) {
	case CALL_MAP:
		return memory_map(space, &r[1], &r[2], r[4]);
	case CALL_UNMAP:
		return memory_unmap(space, &r[1], &r[2]);
	case CALL_SHARE:
	case CALL_COPY: {
		struct space *to = space_of(r[2]);
		if (!to)
			return ERROR_INVALID;
		return r[12] == CALL_SHARE ? memory_share(space, &r[1], to, &r[4], &r[5], r[6]) :
					     memory_copy(space, &r[1], to, &r[4], &r[5]);
	}
	case CALL_DEVICE:
		return memory_device(space, r[1], r[2]);
	case CALL_THREAD_CREATE: {
		if (r[5] >= PRIORITIES)
			return ERROR_INVALID;
		struct thread *thread = thread_create(space, r[1], r[2], r[4], r[5], r[6]);
		return thread ? thread->id : (u32)ERROR_NO_MEMORY;
	}
	}
	return ERROR_INVALID;
}

// The calls on any number of pages: they may return AGAIN.
static bool is_long(u32 call)
{
	return call == CALL_MAP || call == CALL_UNMAP || call == CALL_SHARE || call == CALL_COPY || call == CALL_SPACE_DESTROY;
}

void system_call(void)
{
	struct thread *self = cpu.current;
	enter();
	counters[COUNT_CALLS]++;
#ifdef INVARIANTS
	invariants_named = self->r[0];
#endif
	if (self->r[12] == CALL_IPC) {
		ipc(self, self->r[0], self->r[1]);
	} else {
		u32 id = self->id, result = system_call_result(self, self->r);
		if (self->id != id) // it has destroyed itself
			result = 0;
		else if (result == AGAIN && is_long(self->r[12]))
			self->pc -= self->cpsr & STATUS_THUMB ? 2 : 4; // the call's instruction, after the interrupt
		else
			self->r[0] = result;
	}
	leave(self);
}

void interrupted(void)
{
	const struct thread *self = cpu.current;
	enter();
	thread_tick();
	leave(self);
}

// A data abort, prefetch abort or undefined instruction of a user program.
void faulted(u32 kind)
{
	struct thread *self = cpu.current;
	struct space *space = self->space;
	u32 address, status = 0;
	enter();
	if (kind == 2 && self->cpsr & STATUS_THUMB)
		self->pc += 2; // entry.S takes four bytes off, which is right for ARM instructions
	address = self->pc;
	if (kind == 0) {
		status = core_fault_status();
		address = core_fault_address();
	}
	// The manuals say that the register holds the modified address; QEMU gives the plain one. Both
	// are told apart by their size, and a modified address in the own slot is given back as plain.
	address = modified(space, address);
	bool permission = FAULT_IS_PERMISSION(status);
	u32 plain = space->pid && address >> 25 == space->pid ? address & (SLOT_BYTES - 1) : address;
	bool again = kind < 2 && address < USER_LIMIT && scheme->fault(space, address);
	if (!again && permission)
		again = memory_fault(space, plain);
	if (!again)
		ipc_fault(self, FAULT_DATA + kind, plain);
	leave(self);
}

void memset32(void *at, u32 value, u32 bytes)
{
	for (u32 *word = at; bytes; bytes -= 4)
		*word++ = value;
}
