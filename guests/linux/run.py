"""Boots the Linux guest on one of our machines, or on QEMU, and runs a command in it.

    run.py [-m MACHINE] [--qemu] [--check] [COMMAND]

COMMAND is what the guest's shell shall run; without one it just starts and ends. Needs `make linux`.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent.parent / "build" / "linux"
sys.path.insert(0, str(HERE.parent))

import oracle

import mmulab

# The kernel of each machine. The one made for the ARM926EJ-S alone does not start on another core.
KERNEL = {
    "arm926ej-s": "kernel",
    "ixp425": "kernel-multi",
    "at91rm9200": "kernel-multi",
    "sa1100": "kernel-v4",
}
# The initial RAM disk: Debian's programs where they run, else those that we compile for ARMv4.
INITRD = {"at91rm9200": "initrd-v4.cpio", "sa1100": "initrd-v4.cpio"}


def kernel(machine):
    """The folder with the kernel for a machine."""
    folder = BUILT / KERNEL[machine]
    if not (folder / "Image").exists():
        raise SystemExit(f"{folder} is not built. Type: make linux")
    return folder


def initrd(machine):
    """The initial RAM disk for a machine."""
    return BUILT / INITRD.get(machine, "initrd.cpio")


def command_line(command):
    """The kernel's command line that makes init run the command."""
    return f'console=ttyAMA0 mmulab.run="{command}"'


def ours(machine, command="true", image=None, **options):
    """Boots on our machine; the raw initrd saves the guest unpacking it."""
    folder = kernel(machine)
    return mmulab.boot(
        image or folder / "Image",
        machine,
        dtb=BUILT / "board.dtb",
        initrd=initrd(machine),
        append=command_line(command),
        symbols=folder / "vmlinux",
        **options,
    )


def qemu(machine, command="true", icount=True, timeout=600):
    """Boots the same kernel on QEMU; gives the console and the seconds it took.

    QEMU puts a raw Image where this kernel does not run, so that it gets the zImage.
    """
    folder = kernel(machine)
    words = [
        oracle.EMULATOR, "-M", "versatilepb", "-cpu", oracle.CPU[machine], "-m", "128",
        "-display", "none", "-monitor", "none", "-serial", "stdio", "-net", "none",
        "-audiodev", "none,id=silent", "-no-reboot", "-kernel", str(folder / "zImage"),
        "-dtb", str(BUILT / "board.dtb"), "-initrd", str(initrd(machine)),
        "-append", command_line(command), *(["-icount", "shift=3,sleep=off"] if icount else []),
    ]  # fmt: skip
    started = time.monotonic()
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    return done.stdout.decode(errors="replace"), time.monotonic() - started


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("command", nargs="?", default="true")
    options.add_argument("-m", "--machine", default="arm926ej-s")
    options.add_argument("--qemu", action="store_true")
    options.add_argument("--check", action="store_true")
    options.add_argument("--max-instructions", type=int)
    chosen = options.parse_args()
    if chosen.qemu:
        console, seconds = qemu(chosen.machine, chosen.command)
        print(console, f"{seconds:.1f} s")
        return
    result = ours(
        chosen.machine,
        chosen.command,
        check=chosen.check,
        max_instructions=chosen.max_instructions,
    )
    print(result.console)
    print(
        f"{result.end}: {result.instructions} instructions, {result.cycles} cycles, "
        f"{result.mips:.1f} million instructions a second"
    )
    for report in result.reports:
        print(report["text"])
    sys.exit(not result.succeeded)


if __name__ == "__main__":
    main()
