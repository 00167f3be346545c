// The first program: runs what `run=` names and ends the machine with its number of errors.
#include "bench.h"

struct process processes[512];

void start_or_stop(u32 index, void (*program)(u32), u32 argument, u32 priority)
{
	if (process_start(&processes[index], program, argument, priority, self()))
		return;
	print("a process was refused\n= refused process=%u\n", index); // how many there may be is the core's
	machine_exit(3);
}

static void lap_read(struct lap *lap)
{
	lap->itlb = LAB[LAB_ITLB_MISSES];
	lap->dtlb = LAB[LAB_DTLB_MISSES];
	lap->icache = LAB[LAB_ICACHE_MISSES];
	lap->dcache = LAB[LAB_DCACHE_MISSES];
	lap->write_backs = LAB[LAB_WRITE_BACKS];
	lap->instructions = LAB[LAB_INSTRUCTIONS];
	lap->cycles = lab_cycles();
}

void lap_start(struct lap *lap)
{
	LAB[LAB_PHASE] = 1;
	lap_read(lap);
}

void lap_end(struct lap *lap)
{
	struct lap now;
	lap_read(&now);
	LAB[LAB_PHASE] = 0;
	lap->cycles = now.cycles - lap->cycles;
	lap->instructions = now.instructions - lap->instructions;
	lap->itlb = now.itlb - lap->itlb;
	lap->dtlb = now.dtlb - lap->dtlb;
	lap->icache = now.icache - lap->icache;
	lap->dcache = now.dcache - lap->dcache;
	lap->write_backs = now.write_backs - lap->write_backs;
}

void lap_print(const struct lap *lap, u32 per)
{
	print(" cycles=%U per=%u instructions=%u itlb=%u dtlb=%u icache=%u dcache=%u write_backs=%u", lap->cycles, per,
	      lap->instructions, lap->itlb, lap->dtlb, lap->icache, lap->dcache, lap->write_backs);
	counters_print();
}

void counters_print(void)
{
	static const char *const names[COUNTERS] = { "switches", "flushes", "tlb_flushes", "collisions", "fills",
		"recycled_dirty", "recycled_clean", "grown", "written_shared", "page_flushes", "calls" };
	for (u32 i = 0; i < COUNTERS; i++)
		print(" %s=%u", names[i], counter(i));
	print("\n");
}

static u32 before[COUNTERS];

void count_from_here(void)
{
	for (u32 i = 0; i < COUNTERS; i++)
		before[i] = counter(i);
}

u32 counted(enum counter which)
{
	return counter(which) - before[which];
}

// What each program can be told besides, a space behind each name.
static const struct {
	const char *name;
	program *run;
	const char *options;
} programs[] = {
	{ "pingpong", pingpong, "clients rounds lines seed " },
	{ "extreme", extreme, "processes pages laps byte mapping=private mapping=shared " },
	{ "ring", ring, "processes kilobytes rounds array=low array=apart array=same " },
	{ "storm", storm, "groups loops " },
	{ "periodic", periodic, "period samples " },
	{ "events", events, "" },
	{ "isolation", isolation, "" },
	{ "random", random_operations, "operations spaces places seed " },
	{ "recycled", recycled, "tries " },
	{ "stale", stale, "" },
	{ "switches", switches, "" },
	{ "attack", attack, "attack sections " },
	{ "fuzz", fuzz, "calls seed thumb " },
	{ "library", library, "processes pages laps " },
	{ "calls", calls, "" },
};

int main(void)
{
	lab_start(0);
	lab_name(LAB_NAME_PHASE, 1, "measured");
	for (u32 i = 0; i < sizeof programs / sizeof *programs; i++)
		if (option("run", programs[i].name)) {
			options_allow("scheme run mutant path=fast path=general ", programs[i].options);
			u32 errors = programs[i].run();
			if (!LAB[0])
				return errors ? 1 : 0;
			print("= checker reports=%u\n", LAB[LAB_CHECKER_REPORTS]);
			return errors ? 1 : 0;
		}
	print("give run=pingpong|extreme|ring|storm|periodic|events|isolation|random|recycled|stale|switches|attack|fuzz|library|calls\n");
	return 2;
}
