"""Linux with address spaces and one of the things that they do left out: what notices?

    leave_out.py --list
    leave_out.py --jobs 2
    leave_out.py --command "meet && stress 8 20 7 && attack 16" lines_after_flush

Boots the kernel of `make linux-spaces-test` once for each name and each scheme that it concerns,
with the checker, and runs `meet`, `stress`, `attack` and `shares`, or a command of yours; prints a
Markdown table. "Noticed by" is the checker (the kinds of its reports), the program (a wrong value,
an attack that succeeds, a guest that does not end), the kernel's own messages, or the cost (more
than a tenth more instructions). For `preemption` it is the wake-up times of cyclictest while two
processes make each other's switches flush, a tenth more of them. That is of one layout of the
kernel: a change of the kernel changes them by as much (docs/linux-address-spaces.md).
"""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run

from mmulab.command import add_set_option, changes_of, run_script, script_options
from mmulab.limits import MAX_THREADS, whole_number
from mmulab.output import one_by_one

FCSE = ("fcse-guaranteed", "fcse-best-effort")
ALL = (*FCSE, "fass")
SHARED = ("fass-shared",)
# What can be left out, and in which schemes it is done at all.
NAMES = {
    "fork_tlb": ALL, "fork_cache": ALL, "exit_cache": ALL, "range_address": ALL, "page_address": ALL,
    "call_address": ALL, "tlb_page_address": ALL, "tlb_range_address": ALL, "tlb_range_of_both": ("fass",),
    "ptrace": ALL, "aliases_of_others": ALL, "aliases_of_private_mappings": ALL,
    "shared_mappings": ALL, "first_table": FCSE, "fault_address": ALL,
    "domain_faults_as_page_faults": ("fass",), "reboot_identifier": ("fcse-guaranteed",),
    "lines_of_others": ALL, "forbidden_places": ("fcse-guaranteed", "fass"), "own_identifier": ALL,
    "lines_after_flush": ALL, "switch_tlb": FCSE, "shared_dirty": ("fcse-best-effort",),
    "mixed_up": ("fcse-best-effort",), "large": ("fcse-best-effort",), "last_user": FCSE,
    "grow_cache": ("fcse-best-effort",), "grow_load": ("fcse-best-effort",), "recycle_tlb": ("fass",),
    "recycle_slots": ("fass",), "collision_cache": ("fass",), "collision_tlb": ("fass",),
    "entries_of_freed_tables": ("fass", *SHARED), "directory_clean": ("fass",), "other_domains": ("fass",),
    "kernel_as_client": ("fass",), "forget_table": ("fass",), "end_of_domain": ("fass",),
    "end_of_lines": ("fass",), "region_lines": SHARED, "region_tlb_owner": SHARED, "region_entries": SHARED,
    "region_clean": SHARED, "region_invalidate": SHARED, "region_alone": SHARED, "region_end": SHARED,
    "region_file": SHARED, "region_permissions": SHARED, "region_leave": SHARED, "region_fork": SHARED,
    "region_lender": SHARED, "region_lines_of_others": SHARED, "lines_since_begin": ("fcse-best-effort",),
    "load_on_return": ("fcse-best-effort",), "preemption": ("fcse-best-effort",),
    "left_lines": ALL, "left_lines_of_shared": ("fcse-best-effort", "fass"),
    "left_lines_and_large": ("fcse-best-effort",), "reach_further": ("fcse-best-effort",),
    "region_bounds": SHARED, "region_beside": SHARED, "growth": ("fass", *SHARED),
}  # fmt: skip
MACHINE = "arm926ej-s"
# The flush of the ARM926EJ-S ends when nothing is dirty, whoever made it so; on XScale it takes its
# time. Likewise its tables go too fast for `entries_of_freed_tables`.
ELSEWHERE = dict.fromkeys(
    ("lines_since_begin", "load_on_return", "preemption", "entries_of_freed_tables"), "ixp425"
)
COMMAND = "stress limits; meet && stress 8 20 5 && attack 16 && shares"
WAKE_UPS = "stress dirty 4 & cyclictest -q -i 1000 -p 80 -l 3000"
LIMIT = 400_000_000
KERNEL_SAYS = re.compile(
    r"(BUG .{0,60}|Oops|Unhandled fault|WARNING: .{0,60}|non-zero pgtables_bytes)"
)


def tell(line, to=None):
    """Prints a line in one write: threads tell what they begin between the rows of the table."""
    to = to or sys.stdout
    to.write(line + "\n")
    to.flush()


def boot(load, scheme, name="nothing", machine=MACHINE):
    """One run of a load: a command, and changes of the machine."""
    command, settings = load
    tell(f"{machine}, {scheme}, {'whole' if name == 'nothing' else f'without {name}'}", sys.stderr)
    return run.ours(
        machine,
        command,
        spaces=scheme,
        settings=settings,
        kernel_folder="kernel-spaces-test",
        extra=f"slab_debug=-;FP,mm_struct address_spaces_without={name}",
        check=True,
        max_instructions=LIMIT,
    )


def wake_ups(result):
    """Average and most, in microseconds, of cyclictest."""
    found = re.search(r"Avg: *(\d+) Max: *(\d+)", result.console)
    if not found or result.exit != 0:
        raise run.failure("cyclictest", result)
    return [int(time) for time in found.groups()]


def noticed(result, usual):
    """Who noticed, in words, or nothing."""
    found = []
    kinds = {}
    for report in result.reports:
        if not run.is_tolerated(report):
            kinds[report["kind"]] = kinds.get(report["kind"], 0) + 1
    if kinds:
        found.append("checker: " + ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items())))
    console = result.console.replace("\r", "")
    said = re.findall(r"^((?:meet|stress|attack|shares|wander): .*)$", console, re.M)
    wrong = [line for line in said if "instead of" in line or "0x" in line]
    if wrong:
        found.append(f"program: {wrong[0]}")
    elif result.exit is None:
        found.append(f"program: the guest does not end ({result.reason})")
    elif result.exit != 0:
        found.append("program: it fails" + (f" ({said[-1]})" if said else ""))
    elif [line for line in said if "mapping of" in line or "mapping at" in line] != usual["limits"]:
        found.append("program: what is refused differs")
    if message := KERNEL_SAYS.search(console):
        found.append(f"kernel: {message[1]}")
    if not found and result.instructions > 1.1 * usual["instructions"]:
        found.append(
            f"cost: {result.instructions / usual['instructions'] - 1:.0%} more instructions"
        )
    return "; ".join(found)


def usual_of(load, scheme, machine):
    """What a run says with nothing left out."""
    result = boot(load, scheme, machine=machine)
    said = re.findall(r"^(stress: a mapping .*)$", result.console.replace("\r", ""), re.M)
    usual = {"instructions": result.instructions, "limits": said}
    complaint = noticed(result, usual)
    if complaint:
        raise SystemExit(f"{scheme} on {machine}, with nothing left out: {complaint}")
    return usual


def try_without(load, name, scheme, usual):
    """Who notices, in words, or nothing."""
    machine = ELSEWHERE.get(name, MACHINE)
    if name != "preemption":
        return noticed(boot(load, scheme, name, machine), usual[scheme, machine])
    load = (WAKE_UPS, load[1])
    here, there = (wake_ups(boot(load, scheme, left, machine)) for left in (name, "nothing"))
    if all(without <= 1.1 * with_it for without, with_it in zip(here, there, strict=True)):
        return ""
    return f"wake-up: average {here[0]} us instead of {there[0]}, at most {here[1]} instead of {there[1]}"


def chosen_of(options, names):
    """What the command line asks for: the names to leave out (`name`), none if it asks for the
    list, and how many runs at a time (`jobs`)."""
    options.add_argument("name", nargs="*", help="only these; --list shows all")
    options.add_argument("--list", action="store_true", help="print the names and end")
    options.add_argument(
        "--jobs", type=int, default=1, help="how many boots at a time (default: %(default)s)"
    )
    chosen = options.parse_args()
    whole_number("--jobs", chosen.jobs, 1, MAX_THREADS)
    if chosen.list:
        print("\n".join(names))
        chosen.name = []
        return chosen
    if unknown := [name for name in chosen.name if name not in names]:
        options.error(f"{unknown[0]}: choose from {', '.join(names)}")
    chosen.name = chosen.name or list(names)
    return chosen


def main():
    options = script_options(__doc__)
    options.add_argument(
        "--command", default=COMMAND, help="what is run, but for preemption (default: %(default)s)"
    )
    add_set_option(options, "core.line_allocation_translates=true")
    chosen = chosen_of(options, NAMES)
    names, load = chosen.name, (chosen.command, changes_of(chosen.set))
    if not names:
        return
    for machine in (MACHINE, *ELSEWHERE.values()):
        for command in (chosen.command, WAKE_UPS):
            run.need_to_boot(machine, "kernel-spaces-test", command=command)
    cases = [(name, scheme) for name in names for scheme in NAMES[name]]
    pairs = sorted({(scheme, ELSEWHERE.get(name, MACHINE)) for name, scheme in cases})
    with ThreadPoolExecutor(chosen.jobs) as pool:
        done = pool.map(lambda pair: usual_of(load, *pair), pairs)
        usual = {pair: next(done) for pair in one_by_one("With everything", pairs, "boots")}
        found = pool.map(lambda case: try_without(load, *case, usual), cases)
        tell("| left out | scheme | noticed by |\n|---|---|---|")
        for name, scheme in one_by_one("Leaving out", cases, "boots"):
            who = next(found)
            where = f", `{ELSEWHERE[name]}`" if name in ELSEWHERE else ""
            tell(f"| `{name}` | `{scheme}`{where} | {who or 'nothing'} |")


if __name__ == "__main__":
    run_script(main)
