"""Boots the Linux guest on one of our machines, or on QEMU, and runs a command in it.

    run.py --check "hackbench -p -g 1 -l 100"
    run.py --spaces fass --compare "stress 4 20 && attack 4"
    run.py --migration "safe tlb_migration_least=24" "hop stay 60 48 48; cat /proc/tlb_migration"

COMMAND is what the guest's shell shall run; without one it just starts and ends. `--compare` runs
it on both and fails where they print something different other than times. `--check` marks reports
that Linux allows itself as tolerated (docs/checker.md); the exit status is 1 if there is any
report, tolerated or not, or if that of the guest is not 0 (with `--qemu` the guest's own).
`--spaces` takes the kernel with address spaces (docs/linux-address-spaces.md) and one of its
schemes, `--migration` the one whose tasks take TLB entries along (docs/tlb-migration.md), on
`gem5-vexpress` or with `-m cortex-a7`. Needs `make linux`, and `make linux-spaces` for `--spaces`,
`make linux-migration` for `--migration`.
"""

import argparse
import difflib
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent.parent / "build" / "linux"
sys.path.insert(0, str(HERE.parent))

import oracle

import mmulab
from mmulab.command import add_set_option, changes_of, run_script, script_options
from mmulab.errors import InputError, Interrupted, MmulabError
from mmulab.limits import whole_number
from mmulab.papers import tlb_migration_linux

# The kernel of each machine. The one made for the ARM926EJ-S alone does not start on another core.
KERNEL = {
    "arm926ej-s": "kernel",
    "ixp425": "kernel-multi",
    "at91rm9200": "kernel-multi",
    "sa1100": "kernel-v4",
    "cortex-a7": "kernel-smp",
}
# The device tree of a board.
DEVICE_TREE = {"versatilepb": "board.dtb", "virt": "virt.dtb"}
# The same kernels with address spaces, and their schemes.
WITH_SPACES = {
    "arm926ej-s": "kernel-spaces",
    "ixp425": "kernel-spaces-multi",
    "at91rm9200": "kernel-spaces-multi",
    "sa1100": "kernel-spaces-v4",
}
# The machine of several cores.
SMP = "cortex-a7"
# The generic timers' frequency on QEMU.
QEMU_TIMER_HZ = 62_500_000
SCHEMES = ("off", "fcse-guaranteed", "fcse-best-effort", "fass", "fass-shared")
# The initial RAM disk: Debian's programs where they run, else those that we compile for ARMv4.
INITRD = {"at91rm9200": "initrd-v4.cpio", "sa1100": "initrd-v4.cpio"}
# What is in that of `make linux-spaces` alone, which has ARMv4 programs beside.
ONLY_WITH_SPACES = re.compile(r"\b(shares|swap)\b")


# What a kernel with address spaces is told on QEMU only, whose TLB knows addresses before FCSE
# relocates them: invalidating a single entry by its modified virtual address does nothing there.
QEMU_SPACES = " address_spaces_whole_tlb"
# What the kernel is told on QEMU only: its XScale waits by a register that this board of QEMU
# lacks.
QEMU_OPTIONS = {"ixp425": " nohlt"}


# Cores that QEMU lacks.
NOT_ON_QEMU = {"at91rm9200": "ARM920T"}


COMMAND_LINE_BYTES = 1024


# What makes a file or a kernel's folder in `build/linux`: the first whose name it begins with.
MADE_BY = {
    "kernel-spaces-test": "make linux-spaces-test",
    "kernel-spaces-swap": "make -C guests/linux OUT=$PWD/build/linux swap",
    "kernel-spaces": "make linux-spaces",
    "kernel-plain": "make -C guests/linux OUT=$PWD/build/linux plain",
    "kernel-migration-test": "make linux-migration-test",
    "initrd-migration": "make linux-migration",
    "initrd-loads": "make -C guests/linux OUT=$PWD/build/linux loads",
    "kernel-migration": "make linux-migration",
    "kernel-smp": "make linux-smp",
    "virt.dtb": "make linux-smp",
    "initrd-lmbench": "make -C guests/linux OUT=$PWD/build/linux lmbench",
    "initrd-spaces": "make linux-spaces",
    "initrd-selftests": "make -C guests/linux OUT=$PWD/build/linux selftests",
    "kernel": "make linux",
    "": "make linux, or make linux-spaces for its kernels alone",
}


def built(name):
    """A file of the build, or a kernel's folder; ends with the command that makes it where it is
    not there."""
    path = BUILT / name
    if not (path / "Image" if name.startswith("kernel") else path).exists():
        command = next(command for begin, command in MADE_BY.items() if name.startswith(begin))
        raise MmulabError(f"{path} is not built. Type: {command}")
    return path


def need(*names):
    """Ends with the command that makes the first of these that is not built: before a table's head,
    not after it."""
    for name in names:
        built(name)


def need_migration(initrd=tlb_migration_linux.INITRD):
    """The same for all that `tlb_migration_linux.boot` boots."""
    need("kernel-migration", initrd, tlb_migration_linux.DEVICE_TREE)


def need_to_boot(machine, *kernels, command=""):
    """The same for all that a machine boots with these kernels' folders, to run the command."""
    need(*kernels, DEVICE_TREE[board(machine)], initrd_name(machine, command))


def kernel_name(machine, spaces=None):
    """The name of the folder with the kernel for a machine; with a scheme, the one with address
    spaces."""
    return (WITH_SPACES if spaces else KERNEL)[machine]


def kernel(machine, spaces=None):
    """The folder itself."""
    return built(kernel_name(machine, spaces))


def initrd_name(machine, command):
    """The name of the initial RAM disk for a machine, with the programs of the command."""
    if ONLY_WITH_SPACES.search(command):
        return "initrd-spaces.cpio"
    return INITRD.get(machine, "initrd.cpio")


def whole_command(command):
    """A command of which the guest gets all: it stands in double quotes on the kernel's command
    line."""
    if not command.strip():
        raise InputError("the command is empty; name one")
    if '"' in command:
        raise InputError(
            f"the command stands in double quotes on the kernel's command line; use single ones in it: {command!r}"
        )
    if "\n" in command:
        raise InputError(f"the command has more than one line; separate commands by ;: {command!r}")
    return command


def command_line(command, spaces=None):
    """The kernel's command line that makes init run the command."""
    scheme = f"address_spaces={spaces} " if spaces else ""
    return f'console=ttyAMA0 {scheme}mmulab.run="{whole_command(command)}"'


def whole(words):
    """A kernel's command line, of which Linux on ARM keeps so many bytes (COMMAND_LINE_SIZE, with
    the null)."""
    if (length := len(words.encode())) >= COMMAND_LINE_BYTES:
        raise InputError(
            f"the kernel's command line would have {length} bytes and keeps {COMMAND_LINE_BYTES - 1}; shorten the command"
        )
    return words


def board(machine):
    """The board of a machine, by QEMU's name."""
    return mmulab.Machine.load(machine).get("board.kind")


def ours(
    machine,
    command="true",
    image=None,
    spaces=None,
    settings=(),
    kernel_folder=None,
    extra="",
    **options,
):
    """Boots on our machine; the raw initrd saves the guest unpacking it. `extra` is put before the
    kernel's command line."""
    folder = built(kernel_folder) if kernel_folder else kernel(machine, spaces)
    described = mmulab.Machine.load(machine).with_changes(dict(settings))
    cores = described.get("cores")
    if machine == SMP and cores < 4:
        extra = f"{extra} maxcpus={cores}"
    return mmulab.boot(
        image or folder / "Image",
        described,
        dtb=built(DEVICE_TREE[described.get("board.kind")]),
        initrd=options.pop("initrd", None) or built(initrd_name(machine, command)),
        append=whole(f"{extra} {command_line(command, spaces)}".strip()),
        symbols=folder / "vmlinux",
        **options,
    )


def qemu(
    machine,
    command="true",
    icount=True,
    timeout=600,
    options=(),
    spaces=None,
    cores=None,
    kernel_folder=None,
    extra="",
):
    """Boots the same kernel on QEMU; gives the console, with what QEMU itself says, and the seconds
    it took. `extra` is put before the kernel's command line.

    QEMU puts a raw Image where this kernel does not run, so that it gets the zImage.
    """
    oracle.need_tools(oracle.EMULATOR)
    folder = built(kernel_folder) if kernel_folder else kernel(machine, spaces)
    described = mmulab.Machine.load(machine)
    ram, cores = described.get("memory.size_bytes"), cores or described.get("cores")
    last = QEMU_OPTIONS.get(machine, "") + (QEMU_SPACES if spaces else "")
    several = []
    if machine == SMP:
        # QEMU 7.2 stops with several cores whose time follows instructions.
        icount = icount and cores == 1
        several = ["-smp", str(cores)]
        if cores < 4:
            extra = f"{extra} maxcpus={cores}"
    words = [
        oracle.EMULATOR, "-M", board(machine), "-cpu", oracle.CPU[machine], *several, "-m", str(ram >> 20),
        "-display", "none", "-monitor", "none", "-serial", "stdio", "-net", "none",
        "-audiodev", "none,id=silent", "-no-reboot", "-kernel", str(folder / "zImage"),
        "-dtb", str(built(DEVICE_TREE[board(machine)])), "-initrd", str(built(initrd_name(machine, command))),
        "-append", whole(f"{extra} {command_line(command, spaces)}{last}".strip()), *(["-icount", "shift=3,sleep=off"] if icount else []),
        *options,
    ]  # fmt: skip
    started = time.monotonic()
    done = oracle.finished(words, timeout, command)
    console = done.stdout + done.stderr if options else done.stdout
    return console.decode(errors="replace"), time.monotonic() - started


def tell_of_qemu(console, counts):
    """Prints what a guest on QEMU printed, and ends with its status; 1 where it told none."""
    print(console, counts)
    status = re.search(r"mmulab: exit status (\d+)", console)
    sys.exit(int(status[1]) if status else 1)


def is_tolerated(report):
    """Whether Linux itself lets a report's access happen, with any address spaces or none.

    fork() write-protects the parent's pages one by one and invalidates their TLB entries at the
    end. A thread of the parent may be scheduled in between and write by such an entry; or read by
    it, which on XScale has another write policy than the page has now, since pages that users may
    not write are write-through there (erratum 40, proc-xscale.S). The flushes of TLB and cache that
    follow come before the child runs, so that nothing is lost. With several cores the checker has
    rules for that itself (docs/checker-rules.md), and what it reports is not tolerated.
    """
    if report["kind"] != "stale-tlb-entry":
        return False
    forbidden = "but the tables forbid the access" in report["text"]
    policy = "but the tables say other cacheable and bufferable bits" in report["text"]
    writer = re.search(r"since 0x[0-9a-f]+ \(cpu_(\w+)_set_pte_ext", report["text"])
    return (
        writer is not None
        and writer[1] != "v7"
        and (forbidden or (policy and writer[1] == "xscale"))
    )


# What differs: times and what is computed from them; the processor's name and revision, and its
# control register's bits that are fixed; where the loader put things, by some pages.
DIFFERENT = (
    (r"\[ *\d+\.\d+\]", "[time]"),
    (r"\d+\.\d+ BogoMIPS \(lpj=\d+\)", "N BogoMIPS"),
    (r"CPU: .+ \[[0-9a-f]+\] revision \d+ (\(\w+\)), cr=[0-9a-f]+", r"CPU: \1"),
    (r" nohlt", ""),
    (r" address_spaces_whole_tlb", ""),
    (r"(Memory: )\d+K(.*) \d+K reserved", r"\1NK\2 NK reserved"),
    (r"(?i)(time:? )\d+\.\d+", r"\1N"),
    (r"^(real|user|sys)\t.*", r"\1"),
    (r"(Min|Act|Avg|Max): +\d+", r"\1: N"),
    # QEMU's sa1110 holds more of them than the chip (SA-1100 manual, 5.2.13).
    (r"with \d+ process identifiers", "with N process identifiers"),
    # An attack tries the pages around what is mapped, one more or less.
    (r"( victims, )\d+( attempts)", r"\1N\2"),
)


# Lines that come when the kernel gets round to it, and those that only QEMU comes to: here the run
# ends by the exit register before the guest reboots, and the debug registers are not modelled.
NO_PLACE = (
    "Unpacking initramfs",
    "Freeing initrd memory",
    "reboot: Restarting system",
    "hw-breakpoint: ",
)


def comparable(console):
    """The lines of a console less what is different in any two runs on different machines."""
    lines = console.replace("\r", "").splitlines()
    for pattern, instead in DIFFERENT:
        lines = [re.sub(pattern, instead, line) for line in lines]
    return [line for line in lines if not any(words in line for words in NO_PLACE)]


def failure(where, result):
    """What ends a script whose guest failed: how the run ended and what programs said last, in one
    line.

    `Interrupted` where it was not the guest's doing."""
    if result.reason == "interrupted":
        return Interrupted(f"{where} was interrupted")
    lines = [line for line in result.console.replace("\r", "").splitlines() if line]
    said = [line for line in lines if not line.startswith("[")] or lines
    return SystemExit(f"{where}: {result.end}; the guest said: {' / '.join(said[-3:])}")


# What the kernel says of parameters that are misspelt, and of values that it does not take.
REFUSED_PARAMETERS = re.compile(
    r"(Unknown kernel command line parameters \".*?\"|Malformed early option '.*?'|TLB migration: .* not .*)"
)


class Shown(mmulab.Transcript):
    """A console that is kept, and shown while the guest prints."""

    def write(self, data):
        super().write(data)
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def tell(result, counts, mark):
    """Prints how a run ended with what is counted, and its reports behind their marks; then ends
    with its status."""
    print(f"{result.end}: {counts}")
    for report in result.reports:
        print(mark(report) + report["text"])
    sys.exit(Interrupted.exit_status if result.reason == "interrupted" else not result.succeeded)


def migration_mode(text):
    """A mode of TLB migration, as an option's value; what else this kernel is told may follow
    it."""
    if text.partition(" ")[0] not in tlb_migration_linux.MODES:
        raise argparse.ArgumentTypeError(f"choose from {', '.join(tlb_migration_linux.MODES)}")
    return text


def refuse_what_has_no_effect(options, chosen):
    """Ends where an option would be passed over, or the guest would not get the whole command."""
    whole_command(chosen.command)
    if chosen.qemu and chosen.compare:
        options.error("--compare boots QEMU, too: not with --qemu")
    if (chosen.qemu or chosen.compare) and (chosen.check or chosen.max_instructions is not None):
        options.error(
            "--check and --max-instructions are for our machine: neither with --qemu nor with --compare"
        )


def refuse_more_cores(options, settings):
    """Ends where the device tree, which has four cores, lacks some of the machine's."""
    cores = mmulab.Machine.load(SMP).with_changes(settings).get("cores")
    if cores > 4:
        options.error(
            f"--set cores={cores}: the device tree has 4; the others would never be started"
        )


def main():
    options = script_options(__doc__)
    options.add_argument(
        "command",
        nargs="?",
        default="true",
        help="what the guest's shell runs (default: %(default)s)",
    )
    options.add_argument(
        "-m", "--machine", help="the machine (default: one that the kernel is built for)"
    )
    add_set_option(options)
    options.add_argument(
        "--spaces", choices=SCHEMES, help="the kernel with address spaces, and its scheme"
    )
    options.add_argument(
        "--migration",
        type=migration_mode,
        metavar="|".join(tlb_migration_linux.MODES),
        help="the kernel whose tasks take TLB entries along, and how; parameters may follow in the same word",
    )
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
    if chosen.migration and (chosen.spaces or chosen.qemu or chosen.compare):
        options.error("--migration goes with none of --spaces, --qemu and --compare")
    if chosen.qemu and chosen.set:
        options.error("--set is for our machine, not for --qemu")
    refuse_what_has_no_effect(options, chosen)
    machines = list(KERNEL)
    if chosen.migration or chosen.spaces:
        machines = list(tlb_migration_linux.MACHINES if chosen.migration else WITH_SPACES)
    chosen.machine = chosen.machine or machines[0]
    if chosen.machine not in machines:
        options.error(f"no such kernel for {chosen.machine}: choose from {', '.join(machines)}")
    if (chosen.qemu or chosen.compare) and chosen.machine in NOT_ON_QEMU:
        options.error(
            f"QEMU has no {NOT_ON_QEMU[chosen.machine]}; choose another machine than {chosen.machine}"
        )
    settings = changes_of(chosen.set)
    if "cores" in settings and chosen.machine != SMP:
        number = "four" if chosen.migration else "one"
        options.error(f"--set cores: is for {SMP}; the kernel of {chosen.machine} is for {number}")
    if chosen.migration and "core.coprocessor" in settings:
        options.error("--set core.coprocessor: --migration chooses it, with the mode's interface")
    if chosen.machine == SMP:
        refuse_more_cores(options, settings)
    if chosen.max_instructions is not None:
        whole_number("--max-instructions", chosen.max_instructions, 1)
    if chosen.migration:
        need_migration()
    if chosen.qemu:
        console, seconds = qemu(chosen.machine, chosen.command, spaces=chosen.spaces)
        tell_of_qemu(console, f"{seconds:.1f} s")
    if chosen.compare:
        if others := settings.keys() - {"cores"}:
            options.error(
                f"--set {sorted(others)[0]}: with --compare only cores, which QEMU is told, too"
            )
        if chosen.machine == SMP:
            settings["board.timer_hz"] = QEMU_TIMER_HZ
        need_to_boot(
            chosen.machine, kernel_name(chosen.machine, chosen.spaces), command=chosen.command
        )
        oracle.need_tools(oracle.EMULATOR)
        print(f"Booting {chosen.machine}", file=sys.stderr)
        ran = ours(chosen.machine, chosen.command, spaces=chosen.spaces, settings=settings)
        cores = int(settings["cores"]) if "cores" in settings else None
        print("Booting QEMU", file=sys.stderr)
        there = qemu(chosen.machine, chosen.command, spaces=chosen.spaces, cores=cores)[0]
        here, there = comparable(ran.console), comparable(there)
        differences = list(
            difflib.unified_diff(there, here, "QEMU", chosen.machine, lineterm="", n=0)
        )
        print("\n".join(differences) or f"{len(here)} lines, all the same")
        sys.exit(bool(differences))
    options = {
        "check": chosen.check, "max_instructions": chosen.max_instructions, "console": Shown(),
    }  # fmt: skip
    if chosen.migration:
        machine = mmulab.Machine.load(chosen.machine).with_changes(settings)
        whole(f"tlb_migration={chosen.migration} {command_line(chosen.command)}")
        result = tlb_migration_linux.boot(machine, chosen.migration, chosen.command, **options)
        if refused := REFUSED_PARAMETERS.search(result.console):
            raise SystemExit(
                f"the kernel says: {refused[1].strip()}; docs/tlb-migration.md has its parameters"
            )
    else:
        result = ours(
            chosen.machine, chosen.command, spaces=chosen.spaces, settings=settings, **options
        )
    tell(
        result,
        f"{result.instructions} instructions, {result.cycles} cycles, "
        f"{result.mips:.1f} million instructions a second",
        lambda report: "tolerated: " * is_tolerated(report),
    )


if __name__ == "__main__":
    run_script(main)
