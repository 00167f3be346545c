"""Boots the same guests with two builds of mmulab and compares all that comes out.

    compare_builds.py BASELINE [BUILD]        everything; minutes for each build
    compare_builds.py --quick BASELINE        a portion of each kind, for use after every step
    compare_builds.py --only linux BASELINE   one kind: conformance, timing, mutants, microkernel, linux

BASELINE and BUILD are checkouts in which `make setup` has run; BUILD is this one if it is left out.
Each program is built once, here, and booted by the Python of either checkout with that checkout's
machine files. Instruction counts, cycles by cause, phase, mode and space, events, notes, checker
reports and the console must be equal; only the host's seconds may differ. Linux is compared where
`make linux` has built it. A machine that the baseline does not know is left out. What a build gave
is kept in build/compare under the digest of its engine, its machines and the guests, so that the
baseline runs once. Exit status 1 if anything differs.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
KEPT = ROOT / "build" / "compare"
KINDS = ["conformance", "timing", "mutants", "microkernel", "linux"]
MAX_DIFFERENCES_SHOWN = 10
# What earlier builds called a column.
RENAMED = {"pc_place": "pc_location", "since_place": "since_location"}


# ---- Which guests ------------------------------------------------------------------------------


def conformance_jobs(quick):
    """Random instructions and the MMU program on each machine."""
    sys.path.insert(0, str(HERE / "conformance"))
    import run

    for machine in run.ARCHITECTURE:
        described = run.described(machine)
        if run.ARCHITECTURE[machine] != run.V7:
            image = run.mmu_program()
            yield {"name": f"mmu program {machine}", "image": image, "machine": described}
        for seed in [1] if quick else [1, 2, 3]:
            path = KEPT / f"cases-{machine}-{seed}{'-quick' if quick else ''}.elf"
            run.image(path, machine, seed, 500 if quick else 10_000)
            yield {"name": f"cases {machine} seed {seed}", "image": path, "machine": described}


def timing_jobs(quick):
    """The timing programs, which print cycles."""
    from timing import run

    for machine in run.MACHINES:
        yield {"name": f"timing {machine}", "image": run.program(machine), "machine": machine}


def mutant_jobs(quick):
    """Each mutant and its correct twin, under the checker."""
    from mutants import run

    for mutant in run.MUTANTS:
        for machine in mutant.machines:
            for correct in (False, True):
                image = run.build(mutant, machine, correct)
                name = f"mutant {image.stem}"
                limit = 2_000_000
                yield {"name": name, "image": image, "machine": machine, "check": True} | {
                    "max_instructions": limit
                }


def microkernel_jobs(quick):
    """Every program of the microkernel under every scheme on every core, checked and not."""
    from microkernel import everywhere

    subprocess.run(["make", "--silent", "-C", HERE / "microkernel"], check=True)
    for number, program in enumerate(everywhere.PROGRAMS):
        for scheme in everywhere.SCHEMES:
            if scheme in everywhere.REFUSED and everywhere.REFUSED[scheme] in program:
                continue
            for turn, (machine, architecture) in enumerate(everywhere.ARCHITECTURES.items()):
                if quick and (number + len(scheme)) % 4 != turn:
                    continue
                for check in [(number + turn) % 2 == 0] if quick else [False, True]:
                    yield {
                        "name": f"{program} {scheme} {machine}{' checked' if check else ''}",
                        "image": ROOT / "build" / "guests" / f"microkernel-{architecture}.elf",
                        "machine": machine,
                        "append": f"scheme={scheme} run={program}",
                        "check": check,
                    }


def linux_jobs(quick):
    """Linux to a shell that runs hackbench, on each core, checked and not."""
    from linux import run

    for machine, folder in run.KERNEL.items():
        image = run.BUILT / folder / "Image"
        if not image.exists() or not run.initrd(machine).exists():
            print(f"Linux for {machine} is left out: {image} is not built", file=sys.stderr)
            continue
        for check in [True] if quick else [False, True]:
            # hackbench is an ARMv5TE program; storm does the like for the others.
            busy = "storm pipes 5" if machine in run.INITRD else "hackbench -p -g 1 -l 20"
            command = "true" if quick else busy
            yield {
                "name": f"Linux {machine}, {command}{', checked' if check else ''}",
                "image": image,
                "machine": machine,
                "dtb": run.BUILT / run.DEVICE_TREE[run.board(machine)],
                "initrd": run.initrd(machine),
                "append": run.command_line(command),
                "symbols": run.BUILT / folder / "vmlinux",
                "check": check,
            }


def jobs(kinds, quick):
    """All boots, as `mmulab.boot` takes them."""
    sources = {
        "conformance": conformance_jobs,
        "timing": timing_jobs,
        "mutants": mutant_jobs,
        "microkernel": microkernel_jobs,
        "linux": linux_jobs,
    }
    found = [job for kind in kinds for job in sources[kind](quick)]
    return [{key: str(v) if isinstance(v, Path) else v for key, v in job.items()} for job in found]


# ---- Running them ------------------------------------------------------------------------------


def boot_all(jobs_file, results_file):
    """Boots every job of a file with the mmulab of this Python; runs in the checkout under test."""
    import mmulab

    listed = json.loads(Path(jobs_file).read_text())
    results = {}
    for number, job in enumerate(listed):
        if sys.stderr.isatty():
            print(f"\r{number}/{len(listed)} {job['name']:.70}\033[K", end="", file=sys.stderr)
        options = {key: value for key, value in job.items() if key != "name"}
        try:
            machine = mmulab.Machine.load(options.pop("machine"))
        except mmulab.MachineError as error:
            print(f"{job['name']}: left out: {error}", file=sys.stderr)
            continue
        result = mmulab.boot(options.pop("image"), machine, **options)
        data = dict(result.data)
        data["console"] = result.console
        for of_the_run in ("seconds", "provenance"):
            data.pop(of_the_run, None)
        results[job["name"]] = data
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    unfinished = Path(f"{results_file}.part")
    unfinished.write_text(json.dumps(results))
    unfinished.rename(results_file)


def digest(checkout, listed):
    """What the results of a checkout depend on: engine, machines, guests."""
    found = hashlib.sha256(json.dumps(listed).encode())
    engines = sorted((checkout / "python" / "mmulab").glob("_engine*"))
    if not engines:
        raise SystemExit(f"{checkout}: no engine. Type: make -C {checkout} setup")
    images = sorted(
        {Path(job[key]) for job in listed for key in ("image", "dtb", "initrd") if key in job}
    )
    for path in engines + sorted((checkout / "machines").glob("*.toml")) + images:
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def results_of(checkout, listed):
    """The outcomes of all jobs with the build in a checkout, by name."""
    kept = KEPT / f"results-{digest(checkout, listed)}.json"
    if not kept.exists():
        jobs_file = KEPT / "jobs.json"
        jobs_file.write_text(json.dumps(listed))
        python = checkout / ".venv" / "bin" / "python"
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        print(f"{len(listed)} boots with {checkout}", file=sys.stderr)
        subprocess.run(
            [python, __file__, "--boot-all", jobs_file, kept],
            check=True, cwd=checkout, env=environment,
        )  # fmt: skip
    return json.loads(kept.read_text())


# ---- Comparing ---------------------------------------------------------------------------------


def differences(before, after, path=""):
    """Places where two outcomes differ, each as `path: before -> after`. What only the later build
    tells is no difference."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            now = RENAMED.get(key, key)
            found = after.get(key, after.get(now))
            yield from differences(before[key], found, f"{path}.{now}".lstrip("."))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif before != after:
        yield f"{path}: {before!r:.300} -> {after!r:.300}"


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("baseline", type=Path, help="checkout of the build to compare with")
    options.add_argument(
        "build", type=Path, nargs="?", default=ROOT, help="checkout under test (default: this one)"
    )
    options.add_argument("--quick", action="store_true", help="a portion of each kind")
    options.add_argument(
        "--only", action="append", choices=KINDS, help="this kind; may be repeated"
    )
    chosen = options.parse_args()
    sys.path.insert(0, str(HERE))
    KEPT.mkdir(parents=True, exist_ok=True)
    listed = jobs(chosen.only or KINDS, chosen.quick)
    before = results_of(chosen.baseline.resolve(), listed)
    listed = [job for job in listed if job["name"] in before]
    after = results_of(chosen.build.resolve(), listed)
    differing = 0
    for job in listed:
        found = list(differences(before[job["name"]], after[job["name"]]))
        differing += bool(found)
        for line in found[:MAX_DIFFERENCES_SHOWN]:
            print(f"{job['name']}: {line}")
        if len(found) > MAX_DIFFERENCES_SHOWN:
            print(f"{job['name']}: and {len(found) - MAX_DIFFERENCES_SHOWN} more")
    instructions = sum(result["instructions"] for result in after.values())
    reports = sum(len(result["checker"]["reports"]) for result in after.values())
    print(
        f"{len(listed)} boots, {instructions} instructions, {reports} reports; {differing} differ"
    )
    sys.exit(differing > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--boot-all"]:
        boot_all(*sys.argv[2:])
    else:
        main()
