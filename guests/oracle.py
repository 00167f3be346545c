"""Builds the small guest programs and runs them on QEMU, the oracle beside our machines.

Shared by the conformance programs, the mutants, the timing programs and their tests.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mmulab.files import replacing_path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "guests"

COMPILER = "arm-none-eabi-gcc"
EMULATOR = "qemu-system-arm"

# The QEMU processor that stands beside each of our machines. QEMU has no ARM920T; its TI925T has
# the same instruction set.
CPU = {
    "arm926ej-s": "arm926",
    "sa1100": "sa1110",
    "ixp425": "pxa255",
    "at91rm9200": "ti925t",
    "armv7a": "cortex-a7,has_el3=off,has_el2=off",
    "cortex-a7": "cortex-a7",
}


def missing_tools(*names):
    """Which of the tools, else of all, are not installed here; `make setup-arm` brings them."""
    return [name for name in names or (COMPILER, EMULATOR) if shutil.which(name) is None]


def need_tools(*names):
    """Ends with what to type where one of the tools, else of all, is not installed."""
    if missing := missing_tools(*names):
        raise SystemExit(f"Missing: {', '.join(missing)}. Type: make setup-arm")


def compile(name, sources, flags, script):
    """Builds build/guests/NAME.elf, if anything that it reads has changed; gives its path."""
    target = BUILD / f"{name}.elf"
    inputs = [Path(source) for source in sources] + [Path(script), Path(__file__)]
    inputs += [header for source in inputs[:-1] for header in source.parent.glob("*.h")]
    command = [
        COMPILER, *flags, "-g", "-Wall", "-Wextra", "-ffreestanding", "-nostdlib",
        "-Wl,--build-id=none", "-T", str(script), *map(str, sources), "-lgcc", "-o",
    ]  # fmt: skip
    stamp = target.with_suffix(".command")
    newest = max(path.stat().st_mtime for path in inputs)
    if target.exists() and stamp.exists() and stamp.stat().st_mtime > newest:
        if stamp.read_text() == str(command):
            return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing_path(target) as path:  # another process may be about to boot it
        done = subprocess.run([*command, str(path)], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{name} does not compile:\n{done.stderr}")
    stamp.write_text(str(command))
    return target


@dataclass
class Run:
    """What a guest printed, and its exit status; None where it did not end in time."""

    output: str
    status: int | None


def finished(command, timeout_seconds, guest):
    """Runs QEMU until its guest has ended; gives what it printed as bytes. Ends with what QEMU said
    where it failed itself, and with the guest that has not ended in time."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_seconds
        )
    except subprocess.TimeoutExpired as error:
        raise SystemExit(
            f"QEMU's guest has not ended after {timeout_seconds} s: {guest}"
        ) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise SystemExit(f"QEMU: {said[-1] if said else f'status {done.returncode}'}")
    return done


def qemu(image, cpu, timeout=120, options=(), board="versatilepb"):
    """Runs a bare-metal image on QEMU; its semihosting console is the output."""
    command = [
        EMULATOR, "-M", board, "-cpu", cpu, "-m", "128", "-display", "none",
        "-monitor", "none", "-serial", "null", "-parallel", "null", "-net", "none",
        "-audiodev", "none,id=silent", "-chardev", "stdio,id=console",
        "-semihosting-config", "enable=on,target=native,chardev=console", "-kernel", str(image),
        *options,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout
        )
    except subprocess.TimeoutExpired as late:
        return Run((late.stdout or b"").decode(errors="replace"), None)
    return Run(done.stdout.decode(errors="replace"), done.returncode)


def named(location, function):
    """Whether a location of a report, as "0x1234 (function+8, file:line)", lies in the function."""
    return any(word.split("+")[0].strip("()<>,") == function for word in location.split())
