"""Linux with address spaces and one of the things that they do left out: what notices?

    leave_out.py [--list] [NAME...]

Boots the kernel of `make linux-spaces-test` once for each name and each scheme that it concerns, with
the checker, and runs `meet`, `stress` and `attack`; prints a Markdown table. "Noticed by" is the checker (the kinds
of its reports), the program (a wrong value, an attack that succeeds, a guest that does not end), the
kernel's own messages, or the cost (more than a tenth more instructions).
"""

import argparse
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run

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
    "directory_clean": ("fass",), "other_domains": ("fass",),
    "kernel_as_client": ("fass",), "forget_table": ("fass",), "end_of_domain": ("fass",),
    "end_of_lines": ("fass",), "region_lines": SHARED, "region_tlb_owner": SHARED, "region_entries": SHARED,
    "region_clean": SHARED, "region_invalidate": SHARED, "region_alone": SHARED, "region_end": SHARED,
    "region_file": SHARED, "region_permissions": SHARED, "region_leave": SHARED, "region_fork": SHARED,
    "region_lender": SHARED, "region_lines_of_others": SHARED, "lines_since_begin": ("fcse-best-effort",),
    "run_meanwhile": ("fcse-best-effort",), "preemption": ("fcse-best-effort",),
    "left_lines": ALL, "left_lines_of_shared": ("fcse-best-effort", "fass"),
    "left_lines_and_large": ("fcse-best-effort",), "reach_further": ("fcse-best-effort",),
}  # fmt: skip
COMMAND = "stress limits; meet && stress 8 20 5 && attack 16"
LIMIT = 300_000_000
KERNEL_SAYS = re.compile(
    r"(BUG .{0,60}|Oops|Unhandled fault|WARNING: .{0,60}|non-zero pgtables_bytes)"
)


def boot(scheme, name="nothing", limit=LIMIT):
    """One run of the load."""
    return run.ours(
        "arm926ej-s",
        COMMAND,
        spaces=scheme,
        kernel_folder="kernel-spaces-test",
        extra=f"slab_debug=-;FP,mm_struct address_spaces_without={name}",
        check=True,
        max_instructions=limit,
    )


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
    said = re.findall(r"^((?:meet|stress|attack): .*)$", console, re.M)
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


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("name", nargs="*", choices=[[], *NAMES])
    options.add_argument("--list", action="store_true")
    chosen = options.parse_args()
    if chosen.list:
        print("\n".join(NAMES))
        return
    usual = {}
    for scheme in (*ALL, *SHARED):
        result = boot(scheme)
        said = re.findall(r"^(stress: a mapping .*)$", result.console.replace("\r", ""), re.M)
        usual[scheme] = {"instructions": result.instructions, "limits": said}
        complaint = noticed(result, usual[scheme])
        if complaint:
            raise SystemExit(f"{scheme}, with nothing left out: {complaint}")
    print("| left out | scheme | noticed by |")
    print("|---|---|---|")
    for name in chosen.name or NAMES:
        for scheme in NAMES[name]:
            found = noticed(boot(scheme, name), usual[scheme])
            print(f"| `{name}` | `{scheme}` | {found or 'nothing'} |", flush=True)


if __name__ == "__main__":
    main()
