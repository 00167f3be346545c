"""Runs the mutants: each must be reported, with the right cause and place; its twin must be silent.

    run.py [NAME...]          all, or those named; one line each

Exit status 1 if any does not come out as expected.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import oracle
from cores import ALL, CORES, SPLIT_TLB

import mmulab
from mmulab.command import run_script, script_options
from mmulab.output import one_by_one

WITH_LOCKDOWN = ("arm926ej-s", "at91rm9200", "ixp425")


@dataclass(frozen=True)
class Mutant:
    """A program, where it runs, and the report it must give."""

    name: str
    source: str
    machines: tuple
    kinds: tuple  # any of these
    access: str
    place: str  # function that the report's PC is in, or the address of code without a symbol
    since: str  # function that made something stale


VIEW = 0x40000000
MUTANTS = [
    Mutant("remap_without_invalidate", "tlb", ALL, ("stale-tlb-entry",), "load", "use", "set_entry"),
    Mutant("unmap_without_invalidate", "tlb", ALL, ("stale-tlb-entry",), "load", "use", "set_entry"),
    Mutant(
        "downgrade_without_invalidate", "tlb", ALL, ("stale-tlb-entry",), "store", "use_store", "set_entry",
    ),
    Mutant(
        "upgrade_without_invalidate", "tlb", ALL, ("spurious-fault", "stale-tlb-entry"), "store", "use_store", "set_entry",
    ),
    Mutant(
        "invalidate_the_wrong_tlb", "tlb", SPLIT_TLB, ("stale-tlb-entry",), "fetch", hex(VIEW), "set_entry",
    ),
    Mutant(
        "invalidate_by_unmodified_address", "tlb", ALL, ("stale-tlb-entry",), "load", "use", "set_entry",
    ),
    Mutant(
        "switch_tables_without_invalidate", "tlb", ALL, ("stale-tlb-entry",), "load", "use", "switch_tables_without_invalidate",
    ),
    Mutant(
        "reuse_domain_without_invalidate", "tlb", ALL, ("stale-tlb-entry",), "load", "use", "set_entry",
    ),
    Mutant(
        "split_section_without_invalidate", "tlb", ALL, ("stale-tlb-entry",), "load", "use", "set_entry",
    ),
    Mutant(
        "locked_entry_survives", "tlb", WITH_LOCKDOWN, ("stale-tlb-entry",), "load", "use", "set_entry",
    ),
    Mutant("descriptor_dirty_in_cache", "tables", ALL, ("stale-walk",), "walk", "use", "put"),
    Mutant("first_level_dirty_in_cache", "tables", ALL, ("stale-walk",), "walk", "use", "put"),
    Mutant("clean_of_the_wrong_descriptor", "tables", ALL, ("stale-walk",), "walk", "use", "put"),
    Mutant("clean_without_drain", "tables", ALL, ("stale-walk",), "walk", "use", "put"),
    Mutant("remap_after_stale_walk", "tables", ALL, ("stale-tlb-entry",), "load", "use", "put"),
    Mutant(
        "new_code_without_icache_invalidate", "code", ALL, ("stale-instruction",), "fetch", hex(VIEW), "put",
    ),
    Mutant(
        "new_code_without_dcache_clean", "code", ALL, ("stale-instruction",), "fetch", hex(VIEW), "put",
    ),
    Mutant(
        "remap_code_without_icache_invalidate", "code", ALL, ("instruction-homonym",), "fetch", hex(VIEW), "",
    ),
    Mutant(
        "new_code_over_two_lines", "code", WITH_LOCKDOWN, ("stale-instruction",), "fetch", hex(VIEW + 32), "put",
    ),
    Mutant("synonym", "data", ALL, ("stale-data-line", "stale-memory"), "load", "use", "put"),
    Mutant("remap_without_clean", "data", ALL, ("data-homonym",), "load", "use", ""),
    Mutant(
        "remap_without_clean_before_another", "data", ALL, ("data-homonym",), "load", "use", "set_entry",
    ),
    Mutant(
        "device_writes_without_invalidate", "data", ALL, ("stale-data-line",), "load", "use", "put",
    ),
    Mutant("device_reads_without_clean", "data", ALL, ("stale-memory",), "load", "use", "put"),
    Mutant("invalidate_instead_of_clean", "data", ALL, ("stale-memory",), "load", "use", "put"),
    Mutant("late_write_back_over_device", "data", ALL, ("stale-memory",), "load", "use", "put"),
    Mutant("process_id_reused_without_clean", "data", ALL, ("data-homonym",), "load", "use", ""),
    Mutant("clean_by_unmodified_address", "data", ALL, ("stale-memory",), "load", "use", "put"),
    Mutant("whole_clean_cut_short", "data", ALL, ("stale-memory",), "load", "use", "put"),
    Mutant("read_buffer_not_emptied", "data", ("sa1100",), ("stale-read-buffer",), "load", "use", "put"),
    Mutant("minicache_not_cleaned", "data", ("sa1100", "ixp425"), ("stale-memory",), "load", "use", "put"),
]  # fmt: skip


def build(mutant, machine, correct):
    """The ELF of a mutant, or of its twin."""
    number, cpu = CORES[machine]
    flags = [
        f"-mcpu={cpu}",
        "-marm",
        "-O1",
        f"-DCORE={number}",
        f"-Wl,--defsym=program={mutant.name}",
    ]
    return oracle.compile(
        f"mutants/{mutant.name}.{machine}{'.correct' if correct else ''}",
        [HERE / "start.S", HERE / "set_up.c", HERE / f"{mutant.source}.c"],
        flags + (["-DCORRECT"] if correct else []),
        HERE / "link.ld",
    )  # fmt: skip


def fits(report, mutant):
    """Whether a report names the mutant's cause and place."""
    place, since = report["pc_location"], report["since_location"]
    if mutant.place.startswith("0x"):
        placed = report["pc"] == int(mutant.place, 16)
    else:
        placed = oracle.named(place, mutant.place)
    return (
        report["kind"] in mutant.kinds
        and report["access"] == mutant.access
        and placed
        and (not mutant.since or oracle.named(since, mutant.since))
        and report["missing"] != ""
    )


def judge(mutant, machine):
    """None if all is as it must be, else what is wrong, in words."""
    twin = mmulab.boot(
        build(mutant, machine, True), machine, check=True, max_instructions=2_000_000
    )
    if twin.exit != 0:
        return f"the twin does not end well: {twin.end}"
    if twin.reports:
        return f"the twin is reported: {twin.reports[0]['text']}"
    run = mmulab.boot(
        build(mutant, machine, False), machine, check=True, max_instructions=2_000_000
    )
    if not run.reports:
        return f"not reported ({run.end})"
    if not any(fits(report, mutant) for report in run.reports):
        return "reported otherwise: " + " | ".join(report["text"] for report in run.reports[:3])
    return None


def main():
    options = script_options(__doc__)
    options.add_argument("name", nargs="*", help="only these")
    names = options.parse_args().name
    known = [mutant.name for mutant in MUTANTS]
    for name in set(names) - set(known):
        options.error(f"no mutant is called {name}: choose from {', '.join(known)}")
    oracle.need_tools(oracle.COMPILER)
    chosen = [m for m in MUTANTS if not names or m.name in names]
    available = mmulab.machine_names("system")
    runs = [(mutant, name) for mutant in chosen for name in mutant.machines if name in available]
    bad = 0
    for mutant, machine in one_by_one("Judging", runs, "runs"):
        wrong = judge(mutant, machine)
        bad += wrong is not None
        print(
            f"{'ok ' if wrong is None else 'BAD'} {mutant.name} on {machine} {wrong or ''}".rstrip(),
            flush=True,
        )
    print(f"mutants: {len(chosen)}; wrong runs: {bad}")
    sys.exit(bad > 0)


if __name__ == "__main__":
    run_script(main)
