"""Linux with TLB migration: the stress of `wander`, with the checker, once for each seed.

    stress_migration.py --rounds 100 2

Without arguments it makes the million migrations of docs/tlb-migration.md: some minutes for each of
four seeds. Prints a Markdown table as it goes on; ends with status 1 if a value was wrong or the
checker has a report, which it prints. Needs `make linux-migration`.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run

import mmulab
from mmulab.command import run_script, script_options
from mmulab.limits import whole_number
from mmulab.output import one_by_one
from mmulab.papers import tlb_migration_linux as linux

SEEDS = (2, 3, 4, 5)
ROUNDS = 18600
COUNTS = ("migrations", "restored", "expired", "expired_meanwhile", "under_way", "not_its_own")


def main():
    options = script_options(__doc__)
    options.add_argument(
        "seeds",
        nargs="*",
        type=int,
        default=SEEDS,
        metavar="SEED",
        help=f"of the stress, a boot for each (default: {' '.join(map(str, SEEDS))})",
    )
    options.add_argument(
        "-m",
        "--machine",
        choices=linux.MACHINES,
        default=linux.MACHINES[0],
        help="the machine (default: %(default)s)",
    )
    options.add_argument(
        "--migration",
        type=run.migration_mode,
        default="safe",
        metavar="MODE",
        help="how tasks take TLB entries along (default: %(default)s)",
    )
    options.add_argument(
        "--rounds", type=int, default=ROUNDS, help="of a boot (default: %(default)s)"
    )
    chosen = options.parse_args()
    # Both are an int of the guest's.
    whole_number("--rounds", chosen.rounds, 1, 2**31 - 1)
    for seed in chosen.seeds:
        whole_number("SEED", seed, 0, 2**31 - 1)
    if chosen.migration.split()[0] in ("off", "transfer"):
        options.error("--migration: thesis or safe, whose saved entries this counts")
    run.need_migration()
    machine = mmulab.Machine.load(chosen.machine)
    columns = ("seed", *COUNTS, "instructions", "MIPS", "reports")
    print(f"| {' | '.join(columns)} |\n|{'---:|' * len(columns)}", flush=True)
    sums, failed = dict.fromkeys(COUNTS, 0), False
    for seed in one_by_one("Booting", chosen.seeds, "seeds"):
        command = f"wander stress 4 {chosen.rounds} {seed} && cat /proc/tlb_migration"
        result = linux.boot(machine, chosen.migration, command, check=True)
        if result.exit != 0:
            raise run.failure(f"seed {seed}", result)
        found = {name: int(value) for name, value in linux.COUNT.findall(result.console)}
        for name in COUNTS:
            sums[name] += found[name]
        told = [*(f"{found[name]:,}" for name in COUNTS), f"{result.instructions:,}", f"{result.mips:.1f}"]  # fmt: skip
        print(f"| {seed} | {' | '.join(told)} | {len(result.reports)} |", flush=True)
        for report in result.reports:
            print(f"seed {seed}: {report['text']}", file=sys.stderr)
        failed = failed or bool(result.reports)
    print(f"| all | {' | '.join(f'{sums[name]:,}' for name in COUNTS)} | | | |")
    sys.exit(failed)


if __name__ == "__main__":
    run_script(main)
