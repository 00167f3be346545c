"""Linux with TLB migration and one of the things that keep it safe left out: what notices?

    leave_out_migration.py --list
    leave_out_migration.py count_range rollover

Boots the kernel of `make linux-migration-test` once for each name, with the checker, and runs the
attacks and the stresses of `wander`, and hackbench; prints a Markdown table. "Noticed by" is as in
`leave_out.py`: the checker, the program, the kernel's own messages, or the cost.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import leave_out
import run

from mmulab.command import run_script, script_options
from mmulab.output import one_by_one
from mmulab.papers.tlb_migration_linux import COPROCESSOR, INITRD

NAMES = (
    "count_all", "count_space", "count_page", "count_range", "raised_first", "under_way", "order_of_reading",
    "generation", "rollover", "identifier", "expiry", "second_comparison", "comparisons", "order_of_entering",
    "take_out", "take_out_everywhere", "interrupts", "wait", "take_back", "one_request", "second_leave", "task_reference", "same_core",
    "fork_state",
)  # fmt: skip
MACHINE = "gem5-vexpress"
# Rounds of the stress, and more of them for what is seldom missed; forks, by which identifiers are
# given out again, likewise.
ROUNDS, FORKS = 200, 100
MORE_ROUNDS = dict.fromkeys(
    ("raised_first", "under_way", "expiry", "second_comparison", "take_out", "interrupts", "wait"),
    3000,
)
MORE_FORKS = {"rollover": 4000, "count_all": 1500, "take_out_everywhere": 1500}
COMMAND = (
    "wander stale && wander rollover saved && wander rollover restored && wander stress 4 {} && wander forks {} && "
    "hackbench -T -g 1 -l 10"
)
LIMIT = 4_000_000_000
# Of the machine's time: what is left out may leave a guest that sleeps for ever.
LIMIT_SECONDS = 60


def length_for(name):
    """How long the stresses have to be: rounds and forks."""
    return MORE_ROUNDS.get(name, ROUNDS), MORE_FORKS.get(name, FORKS)


def boot(name, length):
    """One run."""
    leave_out.tell(f"{MACHINE}, without {name}, {length[0]} rounds, {length[1]} forks", sys.stderr)
    return run.ours(
        MACHINE,
        COMMAND.format(*length),
        kernel_folder="kernel-migration-test",
        initrd=run.built(INITRD),
        settings={"core.coprocessor": COPROCESSOR},
        extra=f"slab_debug=-;FP,mm_struct,task_struct tlb_migration=safe tlb_migration_without={name}",
        check=True,
        max_instructions=LIMIT,
        max_seconds=LIMIT_SECONDS,
    )


def main():
    chosen = leave_out.chosen_of(script_options(__doc__), NAMES)
    names = chosen.name
    if not names:
        return
    run.need("kernel-migration-test", INITRD, "virt.dtb")
    usual = {}
    lengths = sorted({length_for(name) for name in names})
    for length in one_by_one("With everything", lengths, "boots"):
        whole = boot("nothing", length)
        usual[length] = {"instructions": whole.instructions, "limits": []}
        if complaint := leave_out.noticed(whole, usual[length]):
            raise SystemExit(f"with nothing left out: {complaint}")
    with ThreadPoolExecutor(chosen.jobs) as pool:
        leave_out.tell("| left out | noticed by |\n|---|---|")
        found = pool.map(boot, names, map(length_for, names))
        for name in one_by_one("Leaving out", names, "boots"):
            who = leave_out.noticed(next(found), usual[length_for(name)])
            leave_out.tell(f"| `{name}` | {who or 'nothing'} |")


if __name__ == "__main__":
    run_script(main)
