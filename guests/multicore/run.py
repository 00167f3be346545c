"""Runs the programs on several Cortex-A7 beside QEMU, and those that leave something out under the
checker.

    run.py [NAME...]          all, or those named; one line each
    run.py random [SEED...]   the kernel of random steps, by these seeds only
    run.py measure [MACHINE]  what memory and translation cost, as a program measures it on cortex-a7 or gem5-vexpress

Each program must print on our machine what it prints on QEMU; each bug must be reported with its
cause and place, and its correct twin must be silent. Exit status 1 if anything does not come out as
expected.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import oracle

import mmulab
from mmulab.command import run_script, script_options
from mmulab.output import one_by_one

MACHINE = "cortex-a7"
# What `measure.c` can run on.
MEASURED = (MACHINE, "gem5-vexpress")
FLAGS = ["-mcpu=cortex-a7", "-marm", "-O1", "-Wno-parentheses"]
LIMIT = 5_000_000
CORES = (1, 4)


@dataclass(frozen=True)
class Bug:
    """A program that leaves something out, and the report it must give."""

    name: str
    kind: str
    access: str
    location: str  # function that the report's PC is in, or the address of code without a symbol
    since: str  # function that made something stale
    core: int  # which noticed it
    told: str  # a part of the report's text, most often of what is missing


PAGE_A = 0x40200000
VIEW = 0x80000000
BEFORE_REUSE = "before the page is used again"
BARRIERS = "; a DSB before and after the invalidation, then an ISB"
BUGS = [
    Bug(
        "invalidate_here_only", "stale-tlb-entry", "load", "use", "set_entry", 1,
        f" on all cores; the entry is global, so it serves all spaces{BARRIERS} (once)",
    ),
    Bug("reuse_space", "stale-tlb-entry", "load", "use", "first", 0, "TLBIASID"),
    Bug("global_survives", "stale-tlb-entry", "load", "use", "first", 0, "is global"),
    Bug("space_after_table", "stale-tlb-entry", "load", "use", "first", 0, "TLBIASID"),
    Bug("code_stale_elsewhere", "stale-instruction", "fetch", hex(PAGE_A), "put", 1, "ICIMVAU"),
    Bug("code_line_step", "stale-instruction", "fetch", hex(PAGE_A + 32), "put", 0, "ICIMVAU"),
    Bug("clean_too_near", "stale-memory", "load", "use", "put", 0, "(DCCMVAC)"),
    Bug("descriptor_past_line", "stale-walk", "walk", "use", "set_entry", 0, "(DCIMVAC)"),
    Bug("walk_past_caches", "stale-walk", "walk", "use", "set_entry", 0, "(DCCMVAC)"),
    Bug("protect_in_cache", "stale-tlb-entry", "store", "put", "set_entry", 0, "(DCCMVAC), and DSB, "),
    Bug("code_past_lines", "stale-instruction", "fetch", hex(PAGE_A), "put", 0, "(DCIMVAC), then "),
    Bug("overwritten_by_stale_store", "stale-memory", "load", "use", "put", 0, "which went to a wrong place"),
    Bug("invalidate_other_space", "stale-tlb-entry", "load", "use", "set_entry", 0, "TLBIMVA"),
    Bug("invalidate_too_short", "stale-tlb-entry", "load", "use", "set_entry", 0, "TLBIMVA"),
    Bug("protect_without_invalidate", "stale-tlb-entry", "store", "put", "set_entry", 0, BARRIERS),
    Bug("execute_never_without_invalidate", "stale-tlb-entry", "fetch", hex(VIEW), "set_entry", 0, BARRIERS),
    Bug("executable_without_invalidate", "spurious-fault", "fetch", hex(VIEW), "set_entry", 0, BARRIERS),
    Bug("rollover_here_only", "stale-tlb-entry", "load", "use", "other", 1, "TLBIALL"),
    Bug("page_reused", "stale-tlb-entry", "load", "use", "set_entry", 1, BEFORE_REUSE),
    Bug("page_in_other_space", "stale-tlb-entry", "load", "use", "set_entry", 1, BEFORE_REUSE),
    Bug("reused_after_protecting", "stale-tlb-entry", "load", "use", "set_entry", 1, BEFORE_REUSE),
    Bug("unmapped_twice", "stale-tlb-entry", "load", "use", "set_entry", 1, BEFORE_REUSE),
    Bug("large_page_reused", "stale-tlb-entry", "load", "use", "set_entry", 1, BEFORE_REUSE),
    Bug("large_page_in_part", "stale-tlb-entry", "load", "use", "set_entry", 1, BARRIERS),
    Bug("used_before_mapped_back", "stale-tlb-entry", "load", "use", "set_entry", 1, BARRIERS),
    Bug("mapped_back_at_the_end", "stale-tlb-entry", "load", "use", "set_entry", 1, BARRIERS),
    Bug("protect_mapped_back", "stale-tlb-entry", "store", "put", "set_entry", 1, BARRIERS),
    Bug("protect_and_leave", "stale-tlb-entry", "store", "put", "set_entry", 0, BARRIERS),
    Bug("protect_by_way_of_invalid", "stale-tlb-entry", "store", "put", "set_entry", 1, BARRIERS),
    Bug("stale_walk_elsewhere", "stale-tlb-entry", "load", "use", "set_entry", 1, "on all cores"),
    Bug("invalidated_not_completed", "stale-tlb-entry", "load", "use", "set_entry", 0, "on core 0 is not complete"),
    Bug("entry_written_beside", "stale-tlb-entry", "load", "use", "put", 0, "TLBIMVA"),
    Bug("identifier_while_protecting", "stale-tlb-entry", "load", "use", "set_entry", 0, "TLBIASID"),
    Bug("table_reused", "table-reused", "store", "put", "set_entry", 0, "before the table is used again"),
    Bug("table_linked_twice", "table-reused", "store", "put", "set_entry", 0, "before the table is used again"),
    Bug("break_before_make", "break-before-make", "store", "set_entry", "set_entry", 0, "an invalid descriptor"),
    Bug("change_type_at_once", "break-before-make", "store", "set_entry", "set_entry", 0, "an invalid descriptor"),
    Bug("type_remapped", "break-before-make", "store", "set_entry", "set_entry", 0, "an invalid descriptor"),
    Bug("mapped_back", "break-before-make", "store", "set_entry", "set_entry", 0, "an invalid descriptor"),
    Bug("linked_back", "break-before-make", "store", "set_entry", "set_entry", 0, "an invalid descriptor"),
    Bug("one_link_left", "break-before-make", "store", "set_entry", "set_entry", 0, "an invalid descriptor"),
    Bug("global_at_once", "break-before-make", "store", "set_entry", "set_entry", 0, "an invalid descriptor"),
    Bug("split_section", "break-before-make", "store", "set_entry", "set_entry", 0, "an invalid descriptor"),
    Bug("make_before_invalidate", "break-before-make", "store", "set_entry", "set_entry", 0, "TLBIMVA"),
    Bug("make_after_local_invalidate", "break-before-make", "store", "set_entry", "set_entry", 0, "TLBIMVA"),
    Bug("old_identifier", "break-before-make", "store", "set_entry", "set_entry", 0, "TLBIMVA"),
    Bug("identifier_not_walked", "break-before-make", "store", "set_entry", "set_entry", 0, "TLBIMVA"),
    Bug("identifier_without_walks", "break-before-make", "store", "set_entry", "set_entry", 0, "TLBIMVA"),
    Bug("other_core_off", "break-before-make", "store", "set_entry", "set_entry", 0, "TLBIMVA"),
    Bug("make_before_complete", "break-before-make", "store", "set_entry", "set_entry", 0, "DSB"),
    Bug("no_dsb_before_invalidate", "missing-barrier", "load", "use", "set_entry", 0, "DSB between"),
    Bug("dmb_after_invalidate", "missing-barrier", "store", "put", "set_entry", 0, "DSB after"),
    Bug("no_dmb_before_flag", "missing-barrier", "load", "use", "put", 1, "DMB between"),
    Bug("told_before_complete", "missing-barrier", "store", "put", "set_entry", 1, "DSB after"),
    Bug("told_of_broadcast", "missing-barrier", "store", "put", "set_entry", 1, "DSB after"),
    Bug("no_isb_after_invalidate", "missing-barrier", "store", "put", "set_entry", 0, "ISB after"),
    Bug("invalidated_again", "missing-barrier", "store", "put", "set_entry", 0, "ISB after"),
    Bug("no_isb_of_domain", "missing-barrier", "store", "put", "set_entry", 0, "ISB after"),
    Bug("no_isb_after_space", "missing-barrier", "load", "use", "first", 0, "ISB after"),
    Bug("no_isb_after_table", "missing-barrier", "load", "use", "first", 0, "ISB after"),
    Bug("no_isb_after_domains", "missing-barrier", "load", "use", "first", 0, "ISB after"),
    Bug("micro_tlb_only", "stale-tlb-entry", "load", "use", "set_entry", 0, "TLBIMVA"),
    Bug("walk_cache_only", "stale-tlb-entry", "load", "use", "set_entry", 0, "TLBIMVA"),
    Bug("walk_cache_fault", "spurious-fault", "load", "use", "set_entry", 0, "TLBIMVA"),
    Bug("code_not_cleaned", "stale-instruction", "fetch", hex(PAGE_A), "put", 0, "DCCMVAU"),
    Bug("code_not_invalidated", "stale-instruction", "fetch", hex(PAGE_A), "put", 0, f"(ICIMVAU){BARRIERS} (once)"),
    Bug("code_beside_executed", "stale-instruction", "fetch", hex(PAGE_A + 8), "put", 0, f"(ICIMVAU){BARRIERS} (once)"),
    Bug("code_other_colour", "stale-instruction", "fetch", hex(VIEW + 4096), "put", 0, "ICIMVAU"),
    Bug("code_no_dsb_before", "missing-barrier", "fetch", hex(PAGE_A), "put", 0, "DSB between"),
    Bug("code_no_dsb_after", "missing-barrier", "fetch", hex(PAGE_A), "put", 0, "DSB after"),
    Bug("code_no_isb", "missing-barrier", "fetch", hex(PAGE_A), "put", 0, "ISB after"),
    Bug("code_no_isb_elsewhere", "missing-barrier", "fetch", hex(PAGE_A), "put", 1, "ISB after"),
    Bug("code_invalidated_again", "missing-barrier", "fetch", hex(PAGE_A), "put", 1, "ISB after"),
    Bug("code_patched", "missing-barrier", "fetch", hex(PAGE_A), "put", 1, "ISB after"),
    Bug("code_patched_beside", "missing-barrier", "fetch", hex(PAGE_A), "put", 1, "ISB after"),
    Bug("not_cleaned_for_uncached", "stale-memory", "load", "use", "put", 0, "(DCCMVAC)"),
    Bug("evicted_for_uncached", "mismatched-attributes", "load", "use", "put", 0, "(DCCMVAC)"),
    Bug("stored_past_line", "mismatched-attributes", "store", "put", "put", 0, "(DCCMVAC)"),
    Bug("cached_after_uncached", "mismatched-attributes", "load", "use", "put", 0, "DCIMVAC"),
    Bug("used_after_slot", "mismatched-attributes", "load", "use", "put", 0, "DCIMVAC"),
    Bug("byte_beside_uncached", "mismatched-attributes", "load", "use", "first", 0, "DCIMVAC"),
    Bug("two_words_past_line", "mismatched-attributes", "load", "use", "put_second", 0, "(3 times)"),
    Bug("cleaned_by_slot", "mismatched-attributes", "load", "use", "put", 0, "DCIMVAC"),
    Bug("invalidated_for_cleaned", "stale-memory", "load", "use", "put", 0, "(DCCMVAC), before the invalidate"),
    Bug("dropped_beside", "stale-memory", "load", "use", "put", 0, "(DCCMVAC), before the invalidate"),
]  # fmt: skip


@dataclass(frozen=True)
class LeftOut:
    """What random.c leaves out every other time, and a report that it must give by one of SEEDS."""

    name: str
    kind: str
    told: str


INVALIDATE = "TLBIMVA"
LEFT_OUT = [
    LeftOut("DSB_BEFORE_TLBI", "missing-barrier", "DSB between"),
    LeftOut("TLBI", "break-before-make", INVALIDATE),
    LeftOut("TLBI_ELSEWHERE", "break-before-make", INVALIDATE),
    LeftOut("DSB_AFTER_TLBI", "missing-barrier", "DSB after"),
    LeftOut("ISB_AFTER_TLBI", "missing-barrier", "ISB after"),
    LeftOut("INVALID_BETWEEN", "break-before-make", "an invalid descriptor"),
    LeftOut("TLBI_OF_IDENTIFIER", "stale-tlb-entry", "TLBIASID"),
    LeftOut("TLBI_OF_TABLE", "table-reused", "before the table is used again"),
    LeftOut("CODE_CLEAN", "stale-instruction", "DCCMVAU"),
    LeftOut("CODE_DSB", "missing-barrier", "DSB between"),
    LeftOut("CODE_INVALIDATE", "stale-instruction", "ICIMVAU"),
    LeftOut("CODE_INVALIDATE_ELSEWHERE", "stale-instruction", "ICIMVAU"),
    LeftOut("CODE_ISB", "missing-barrier", "ISB after"),
    LeftOut("CLEAN_BEFORE_UNCACHED", "stale-memory", "DCCMVAC"),
    LeftOut("INVALIDATE_AFTER_UNCACHED", "stale-data-line", "DCIMVAC"),
    LeftOut("DOMAINS_ISB", "missing-barrier", "ISB after"),
]
SEEDS = range(1, 13)


def build(name, source, flags=()):
    """Compiles a program; gives the image."""
    sources = [HERE / "start.S", HERE / "machine.c", HERE / source]
    return oracle.compile(f"multicore-{name}", sources, [*FLAGS, *flags], HERE / "link.ld")


def on_qemu(image, cores):
    """What a program prints on QEMU."""
    command = [
        oracle.EMULATOR, "-M", "virt", "-cpu", "cortex-a7", "-smp", str(cores), "-m", "256",
        "-display", "none", "-monitor", "none", "-serial", "stdio", "-net", "none",
        "-kernel", str(image),
    ]  # fmt: skip
    return oracle.finished(command, 120, image.name).stdout.decode(errors="replace")


def machine(cores, name=MACHINE):
    """The machine with a number of cores."""
    return mmulab.Machine.load(name).with_changes({"cores": str(cores)})


def compare_counter(cores):
    """None if the counting program prints the same here and on QEMU, else what is wrong."""
    image = build("counter", "counter.c")
    theirs = on_qemu(image, cores)
    run = mmulab.boot(image, machine(cores), check=True, max_instructions=LIMIT)
    if run.console != theirs:
        return f"QEMU prints {theirs!r}, {MACHINE} {run.console!r} ({run.end})"
    if run.reports:
        return f"reported: {run.reports[0]['text']}"
    return None


def measure(name=MACHINE):
    """What `measure.c` prints on a machine: {name: {size: value}}, cycles in hundredths except for
    whole loops."""
    run = mmulab.boot(build("measure", "measure.c"), machine(1, name), max_instructions=10 * LIMIT)
    figures = {}
    for line in run.console.splitlines():
        name, size, value = line.split()
        figures.setdefault(name, {})[int(size)] = int(value)
    return figures


# What `measure` says: what it is, the unit of what it is over, and how many make a cycle or a walk.
FIGURES = {
    "read": ("a read, cycles above a hit of the first level", "KB", 100),
    "read_two": ("two reads at once, cycles above two hits", "KB", 100),
    "page": ("a page in turn, cycles with the loop", "pages", 100),
    "page_walks": ("walks for each page in turn", "pages", 100),
    "tlb_read": ("reading the TLB, cycles in all", "entries", 1),
    "tlb_valid": ("entries of pages just touched, as the TLB says", "pages", 1),
    "preload": ("PLD over consecutive pages, cycles in all", "pages", 1),
    "next_read": ("reading the next line in turn, cycles with the loop", "prefetches", 100),
    "next_written": ("writing the next line in turn, cycles with the loop", "prefetches", 100),
}

# What reads the TLB's memory, which has the Cortex-A7's layout (ARM DDI 0464F, 6.6.3).
OF_THE_TLB = ("tlb_read", "tlb_valid")


def fits(report, bug):
    """Whether a report names the bug's cause and place."""
    if bug.location.startswith("0x"):
        placed = report["pc"] == int(bug.location, 16)
    else:
        placed = oracle.named(report["pc_location"], bug.location)
    return (
        (report["kind"], report["access"], report["core"]) == (bug.kind, bug.access, bug.core)
        and placed
        and oracle.named(report["since_location"], bug.since)
        and bug.told in report["text"]
    )


def judge(bug):
    """None if all is as it must be, else what is wrong, in words."""
    runs = {}
    for correct in (True, False):
        flags = ["-DCORRECT"] if correct else []
        image = build(f"{bug.name}{'-correct' if correct else ''}", f"bugs/{bug.name}.c", flags)
        runs[correct] = mmulab.boot(image, machine(2), check=True, max_instructions=LIMIT)
    if runs[True].exit != 0 or runs[True].console:
        return f"the twin does not end well: {runs[True].end} {runs[True].console}"
    if runs[True].reports:
        return f"the twin is reported: {runs[True].reports[0]['text']}"
    if not runs[False].reports:
        return f"not reported ({runs[False].end})"
    if not any(fits(report, bug) for report in runs[False].reports):
        texts = " | ".join(report["text"] for report in runs[False].reports[:3])
        return f"reported otherwise: {texts}"
    return None


def random_kernel(seed, left_out="NOTHING"):
    """A run of random.c under the checker. Seeds also differ in how finely the cores take turns."""
    flags = [f"-DSEED={seed}", f"-DLEFT_OUT={left_out}"]
    image = build(f"random-{seed}-{left_out}", "random.c", flags)
    cycles = 25 * (1 + (seed - 1) % 40)
    interleaved = machine(2 + seed % 2).with_changes({"interleave_cycles": str(cycles)})
    return mmulab.boot(image, interleaved, check=True, max_instructions=4 * LIMIT)


def judge_random(seed):
    """None if the random kernel that leaves nothing out finds what it must, and is silent; else
    what is wrong."""
    run = random_kernel(seed)
    if run.exit != 0 or run.console:
        return f"does not end well: {run.end} {run.console}"
    return f"reported: {run.reports[0]['text']}" if run.reports else None


def judge_left_out(left_out):
    """None if what the random kernel leaves out is reported by a seed, and nothing wrong passes in
    silence; else what is wrong."""
    for seed in SEEDS:
        run = random_kernel(seed, left_out.name)
        if run.console and not run.reports:
            return f"seed {seed} finds what is wrong without a report: {run.console}"
        if any(
            (one["kind"], left_out.told in one["text"]) == (left_out.kind, True)
            for one in run.reports
        ):
            return None
    return f"not reported by any seed up to {SEEDS[-1]}"


def main():
    options = script_options(__doc__)
    options.add_argument(
        "name", nargs="*", help="only these; or: random [SEED...], measure [MACHINE]"
    )
    wanted = options.parse_args().name
    if wanted[:1] == ["measure"]:
        machines = wanted[1:] or [MACHINE]
        if machines[1:] or machines[0] not in MEASURED:
            asked = " ".join(machines)
            options.error(f"measure takes one of {', '.join(MEASURED)}, not {asked!r}")
        oracle.need_tools(oracle.COMPILER)
        for name, figures in measure(*machines).items():
            if name in OF_THE_TLB and machines != [MACHINE]:
                continue
            title, unit, parts = FIGURES[name]
            print(title)
            for size, value in figures.items():
                print(f"{size:10} {unit}{value / parts:10g}")
        return
    oracle.need_tools()
    bad = 0
    seeds = SEEDS
    if wanted[:1] == ["random"] and wanted[1:]:
        if not all(seed.isdecimal() and 0 < int(seed) < 1 << 30 for seed in wanted[1:]):
            options.error(
                f"seeds are numbers from 1 to {(1 << 30) - 1}, not {' '.join(wanted[1:])!r}"
            )
        seeds, wanted = map(int, wanted[1:]), ["random"]
    jobs = [(f"counter on {cores}", compare_counter, cores) for cores in CORES]
    jobs += [(bug.name, judge, bug) for bug in BUGS]
    jobs += [(f"random {seed}", judge_random, seed) for seed in seeds]
    jobs += [(left_out.name, judge_left_out, left_out) for left_out in LEFT_OUT]
    known = list(dict.fromkeys(name.split()[0] for name, _, _ in jobs))
    for name in set(wanted) - set(known):
        if name == "measure":
            options.error("measure stands alone, before its machine")
        options.error(f"no program to compare is called {name}: choose from {', '.join(known)}")
    chosen = [job for job in jobs if not wanted or job[0].split()[0] in wanted]
    for name, check, subject in one_by_one("Comparing", chosen, "programs"):
        wrong = check(subject)
        bad += wrong is not None
        print(f"{'ok ' if wrong is None else 'BAD'} {name} {wrong or ''}".rstrip(), flush=True)
    sys.exit(bad > 0)


if __name__ == "__main__":
    run_script(main)
