"""Boots Debian's own kernel and programs on our four Cortex-A7, or on QEMU, and runs a command
there.

    run.py "python3 -c 'print(2 ** 100)'"
    run.py --systemd "systemctl --failed"
    run.py --busybox --compare "uname -a"

COMMAND is what the guest's shell shall run; without one it just starts and ends. `--compare` runs
it on both, on one core, and fails where they print something different other than times. `--check`
marks reports that docs/bugs-found.md explains as known; the exit status is 1 if there is any
report. `--own-kernel` boots the programs with the Linux of `make linux-smp` in place of Debian's.
Needs `make linux-debian`.
"""

import difflib
import importlib.util
import re
import resource
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILT = HERE.parents[2] / "build" / "debian"
sys.path.insert(0, str(HERE.parent.parent))

import oracle

import mmulab
from mmulab.command import add_set_option, changes_of, run_script, script_options
from mmulab.errors import MmulabError
from mmulab.limits import whole_number

# By its path, since several folders have a module of this name.
_spec = importlib.util.spec_from_file_location("linux_run", HERE.parent / "run.py")
assert _spec and _spec.loader
linux = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(linux)

MACHINE = "cortex-a7"
RAM_BYTES = 1 << 30
# The initial RAM disk, and what the kernel starts there.
FIRST_PROCESS = {
    "busybox": ("busybox.cpio", "/init"),
    "programs": ("debian.cpio", "/init"),
    "systemd": ("debian.cpio", "/sbin/init"),
}


def need(name):
    """A file that `make linux-debian` made."""
    if not (BUILT / name).exists():
        raise MmulabError(f"{BUILT / name} is not there. Type: make linux-debian")
    return BUILT / name


def is_built():
    """Whether there is anything to boot."""
    return all((BUILT / name).exists() for name in ("vmlinuz", "symbols", "debian.cpio"))


def command_line(command, first_process, cores):
    """The kernel's command line that makes the first process run the command; a shell for None."""
    limit = f" maxcpus={cores}" if cores < 4 else ""
    start = FIRST_PROCESS[first_process][1]
    run = "" if command is None else f' mmulab.run="{linux.whole_command(command)}"'
    return f"console=ttyAMA0{limit} rdinit={start}{run}"


def ours(command="true", first_process="busybox", settings=(), own_kernel=False, **options):
    """Boots on our machine."""
    # The kernel of `make linux-smp` has no high memory.
    size = RAM_BYTES * 3 // 4 if own_kernel else RAM_BYTES
    described = mmulab.Machine.load(MACHINE).with_changes(
        {"memory.size_bytes": size, **dict(settings)}
    )
    if own_kernel:
        folder = linux.kernel(MACHINE)
        kernel, symbols = folder / "Image", folder / "System.map"
    else:
        kernel, symbols = need("vmlinuz"), need("symbols")
    return mmulab.boot(
        kernel,
        described,
        dtb=need("virt.dtb"),
        initrd=need(FIRST_PROCESS[first_process][0]),
        append=linux.whole(command_line(command, first_process, described.get("cores"))),
        symbols=symbols,
        **options,
    )


def qemu(command="true", first_process="busybox", cores=4, timeout=600):
    """Boots on QEMU; gives the console, and the processor seconds that it took."""
    oracle.need_tools(oracle.EMULATOR)
    words = [
        oracle.EMULATOR, "-M", "virt", "-cpu", oracle.CPU[MACHINE], "-smp", str(cores),
        "-m", str(RAM_BYTES >> 20), "-display", "none", "-monitor", "none", "-serial", "stdio",
        "-net", "none", "-no-reboot", "-kernel", str(need("vmlinuz")), "-dtb", str(need("virt.dtb")),
        "-initrd", str(need(FIRST_PROCESS[first_process][0])),
        "-append", linux.whole(command_line(command, first_process, cores)),
        # QEMU 7.2 stops with several cores whose time follows instructions.
        *(["-icount", "shift=3,sleep=off"] if cores == 1 else []),
    ]  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = oracle.finished(words, timeout, command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout.decode(errors="replace"), seconds


# Lines that come when the kernel gets round to it, or that only QEMU comes to: here the run ends
# before.
HAVE_NO_PLACE = (
    *linux.NO_PLACE,
    "audit: type=2000",
    "reboot: Power down",
    "random: crng init done",
)


def comparable(console):
    """The lines of a console less what is different in any two runs on different machines."""
    lines = console.replace("\r", "").splitlines()
    for pattern, instead in linux.DIFFERENT:
        lines = [re.sub(pattern, instead, line) for line in lines]
    return [line for line in lines if not any(words in line for words in HAVE_NO_PLACE)]


# What the checker reports of this kernel, and docs/bugs-found.md explains: the function that
# noticed it, the one that made something stale, and a part of what was stale.
KNOWN = (
    ("stale-instruction", "pte_offset_late_fixmap", "__patch_text_real", "the dirty line"),
    ("break-before-make", "cpu_v7_set_pte_ext", "cpu_v7_set_pte_ext", "KB of uncached memory"),
    ("mismatched-attributes", "check_writebuffer_bugs", "mmioset", "may write the line back"),
)


def is_known(report):
    """Whether a report is one of those that are explained."""
    return any(
        report["kind"] == kind
        and oracle.named(report["pc_location"], user)
        and oracle.named(report["since_location"], writer)
        and stale in report["stale"]
        for kind, user, writer, stale in KNOWN
    )


def compare(command="true", first_process="busybox"):
    """Boots on one core of both; gives the lines that differ, as a diff, and the number of all."""
    settings = {"cores": 1, "board.timer_hz": linux.QEMU_TIMER_HZ}
    for name in ("vmlinuz", "symbols", "virt.dtb", FIRST_PROCESS[first_process][0]):
        need(name)
    oracle.need_tools(oracle.EMULATOR)
    print(f"Booting {MACHINE}", file=sys.stderr)
    here = comparable(ours(command, first_process, settings).console)
    print("Booting QEMU", file=sys.stderr)
    there = comparable(qemu(command, first_process, cores=1)[0])
    return list(difflib.unified_diff(there, here, "QEMU", MACHINE, lineterm="", n=0)), len(here)


def main():
    options = script_options(__doc__)
    options.add_argument(
        "command",
        nargs="?",
        default="true",
        help="what the guest's shell runs (default: %(default)s)",
    )
    first = options.add_mutually_exclusive_group()
    first.add_argument(
        "--busybox",
        action="store_const",
        const="busybox",
        dest="first",
        help="begin with Debian's initial RAM disk alone",
    )
    first.add_argument(
        "--systemd", action="store_const", const="systemd", dest="first", help="begin with systemd"
    )
    options.add_argument(
        "--own-kernel", action="store_true", help="boot the kernel of make linux-smp"
    )
    add_set_option(options)
    options.add_argument("--qemu", action="store_true", help="on QEMU in place of our machine")
    options.add_argument(
        "--compare",
        action="store_true",
        help="on both, and fail where they print something different",
    )
    options.add_argument(
        "--check",
        action="store_true",
        help="report uses of old translations and of incoherent lines",
    )
    options.add_argument("--max-instructions", type=int, help="end the run there")
    chosen = options.parse_args()
    if chosen.own_kernel and (chosen.qemu or chosen.compare):
        options.error("--own-kernel is for our machine: neither --qemu nor --compare")
    if chosen.compare and chosen.set:
        options.error("--set is not for --compare, which boots one core")
    linux.refuse_what_has_no_effect(options, chosen)
    settings = changes_of(chosen.set)
    if chosen.qemu and (others := settings.keys() - {"cores"}):
        options.error(f"--set {sorted(others)[0]}: with --qemu only cores")
    linux.refuse_more_cores(options, settings)
    first_process = chosen.first or "programs"
    if chosen.max_instructions is not None:
        whole_number("--max-instructions", chosen.max_instructions, 1)
    if chosen.qemu:
        cores = mmulab.Machine.load(MACHINE).with_changes(settings).get("cores")
        console, seconds = qemu(chosen.command, first_process, cores)
        linux.tell_of_qemu(console, f"{seconds:.1f} s of processor time")
    if chosen.compare:
        differences, lines = compare(chosen.command, first_process)
        print("\n".join(differences) or f"{lines} lines, all the same")
        sys.exit(bool(differences))
    started = time.process_time()
    result = ours(
        chosen.command,
        first_process,
        settings,
        chosen.own_kernel,
        check=chosen.check,
        max_instructions=chosen.max_instructions,
        console=linux.Shown(),
    )
    linux.tell(
        result,
        f"{result.instructions} instructions, of which "
        f"{result.data['phases'][0]['instructions']} before the command, {result.cycles} cycles, "
        f"{time.process_time() - started:.1f} s of processor time",
        lambda report: "known: " * is_known(report),
    )


if __name__ == "__main__":
    run_script(main)
