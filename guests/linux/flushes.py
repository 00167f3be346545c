"""Linux with one flush left out at a time: what does the checker say?

    flushes.py --list
    flushes.py switch-drain
    flushes.py -m cortex-a7

Patches the built kernel image: a function's first instruction becomes a return, or single
maintenance instructions inside a function become no-ops. Boots each with the checker and runs
hackbench, or on several cores nothing but its shell; prints a Markdown table. Needs `make linux`,
or `make linux-smp` for `-m cortex-a7`.
"""

import re
import struct
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run

from mmulab.command import run_script, script_options
from mmulab.limits import whole_number
from mmulab.output import one_by_one

TEXT = 0xC0008000  # where the first byte of Image runs
RETURN = 0xE1A0F00E  # mov pc, lr
RETURN_ZERO = (0xE3A00000, RETURN)
NO_OPERATION = 0xE1A00000
STOP_HERE = 0xEAFFFFFE  # b .
CLEAN_IS_DONE = 0xE1300000  # teq r0, r0: the loop around it ends at once

# CP15 operations, without the register.
CLEAN_LINE, DRAIN, ICACHE_ALL, TLB_ALL = 0xEE070F3A, 0xEE070F9A, 0xEE070F15, 0xEE080F17
TEST_CLEAN_INVALIDATE = 0xEE17FF7E

# The same of ARMv7; barriers have no register.
CLEAN_TO_UNIFICATION, CLEAN_AND_INVALIDATE = 0xEE070F3B, 0xEE070F3E
ICACHE_LINE, ICACHE_SHARED, BRANCHES_SHARED = 0xEE070F35, 0xEE070F11, 0xEE070FD1
TLB_ENTRY, TLB_ENTRY_SHARED, TLB_SPACE_SHARED = 0xEE080F37, 0xEE080F33, 0xEE080F53
DSB_STORES, DSB, DSB_ALL_STORES, ISB = 0xF57FF04A, 0xF57FF04B, 0xF57FF04E, 0xF57FF06F
DSB_HERE_STORES, DSB_HERE = 0xF57FF046, 0xF57FF047

# (function, operation inside it or None for the whole function)
SINGLE_CORE = {
    "tlb-user-range": ("v4wbi_flush_user_tlb_range", None),
    "tlb-kernel-range": ("v4wbi_flush_kern_tlb_range", None),
    "cache-all": ("arm926_flush_kern_cache_all", None),
    "cache-user-range": ("arm926_flush_user_cache_range", None),
    "coherent-range": ("arm926_coherent_kern_range", None),
    "dcache-area": ("arm926_flush_kern_dcache_area", None),
    "clean-area": ("cpu_arm926_dcache_clean_area", None),
    "icache-all": ("arm926_flush_icache_all", None),
    "dma-map": ("arm926_dma_map_area", None),
    "dma-unmap": ("arm926_dma_unmap_area", None),
    "dma-flush-range": ("arm926_dma_flush_range", None),
    "dcache-folio": ("__flush_dcache_folio", None),
    "anonymous-page": ("__flush_anon_page", None),
    "set-pte-clean": ("cpu_arm926_set_pte_ext", CLEAN_LINE),
    "set-pte-drain": ("cpu_arm926_set_pte_ext", DRAIN),
    "switch-clean": ("cpu_arm926_switch_mm", TEST_CLEAN_INVALIDATE),
    "switch-icache": ("cpu_arm926_switch_mm", ICACHE_ALL),
    "switch-drain": ("cpu_arm926_switch_mm", DRAIN),
    "switch-tlb": ("cpu_arm926_switch_mm", TLB_ALL),
}

# With a number, only that one of several operations of the kind.
SEVERAL_CORES = {
    "tlb-space": ("flush_tlb_mm", TLB_SPACE_SHARED),
    "tlb-space-dsb-before": ("flush_tlb_mm", DSB_STORES),
    "tlb-space-dsb-after": ("flush_tlb_mm", DSB),
    "tlb-page": ("flush_tlb_page", TLB_ENTRY_SHARED),
    "tlb-page-dsb-before": ("flush_tlb_page", DSB_STORES),
    "tlb-page-dsb-after": ("flush_tlb_page", DSB),
    "tlb-user-range": ("v7wbi_flush_user_tlb_range", TLB_ENTRY_SHARED),
    "tlb-user-range-dsb-before": ("v7wbi_flush_user_tlb_range", DSB, 0),
    "tlb-user-range-dsb-after": ("v7wbi_flush_user_tlb_range", DSB, 1),
    "tlb-kernel-range": ("v7wbi_flush_kern_tlb_range", TLB_ENTRY_SHARED),
    "tlb-kernel-range-isb": ("v7wbi_flush_kern_tlb_range", ISB),
    "tlb-all": ("flush_tlb_all", None),
    "rollover-tlb": ("check_and_switch_context", TLB_ALL),
    "rollover-icache": ("check_and_switch_context", ICACHE_SHARED),
    "switch-first-isb": ("check_and_switch_context", ISB, 0),
    "switch-isb-after-space": ("cpu_v7_switch_mm", ISB, 0),
    "switch-isb-after-table": ("cpu_v7_switch_mm", ISB, 1),
    "switch-reserved-table": ("check_and_switch_context", 0xEE020F10),
    "set-page-icache": ("__sync_icache_dcache", ICACHE_SHARED),
    "set-page-icache-dsb": ("__sync_icache_dcache", DSB_STORES),
    "dcache-folio": ("__flush_dcache_folio", None),
    "dcache-area": ("v7_flush_kern_dcache_area", CLEAN_AND_INVALIDATE),
    "coherent-clean": ("v7_coherent_kern_range", CLEAN_TO_UNIFICATION),
    "coherent-icache": ("v7_coherent_kern_range", ICACHE_LINE),
    "coherent-dsb-between": ("v7_coherent_kern_range", DSB_STORES, 0),
    "coherent-dsb-after": ("v7_coherent_kern_range", DSB_STORES, 1),
    "coherent-isb": ("v7_coherent_kern_range", ISB),
    "anonymous-page": ("__flush_anon_page", None),
}

COMMAND = "hackbench -p -g 1 -l 20; hackbench -T -g 1 -l 5; cp /bin/busybox /tmp/busybox && /tmp/busybox true"
# The boot itself forks, copies on write, executes and exits on four cores.
COMMAND_OF_SEVERAL = "true"


def experiments(machine):
    """What can be left out on a machine: (function, operation, which of them) by name."""
    chosen = SEVERAL_CORES if machine == run.SMP else SINGLE_CORE
    return {name: (*what, None)[:3] for name, what in chosen.items()}


def command(machine):
    """The load for a machine."""
    return COMMAND_OF_SEVERAL if machine == run.SMP else COMMAND


def symbols(system_map):
    """Addresses by name, and all text addresses in order."""
    table = {}
    for line in system_map.read_text().splitlines():
        address, kind, name = line.split()
        if kind in "tT":
            table[name] = int(address, 16)
    return table, sorted(set(table.values()))


def patch(image, function, operation, which, table, addresses):
    """The image without the function or operation; and how many instructions changed. Functions of
    one address share their code."""
    words = bytearray(image)
    start = table[function]
    end = next(address for address in addresses if address > start)
    if operation is None:
        code = RETURN_ZERO if "coherent" in function else (RETURN,)
        struct.pack_into(f"<{len(code)}I", words, start - TEXT, *code)
        return bytes(words), 1
    found = []
    for offset in range(start - TEXT, end - TEXT, 4):
        word = struct.unpack_from("<I", words, offset)[0]
        whole = operation == TEST_CLEAN_INVALIDATE or operation >> 28 == 0xF
        if word == operation if whole else word & ~0xF000 == operation:
            found.append(offset)
    found = found if which is None else found[which : which + 1]
    for offset in found:
        new = CLEAN_IS_DONE if operation == TEST_CLEAN_INVALIDATE else NO_OPERATION
        struct.pack_into("<I", words, offset, new)
    return bytes(words), len(found)


def is_called(function, machine, limit):
    """Whether the load ever comes to a function: one that stops there never ends."""
    folder = run.kernel(machine)
    table, _ = symbols(folder / "System.map")
    image = bytearray((folder / "Image").read_bytes())
    struct.pack_into("<I", image, table[function] - TEXT, STOP_HERE)
    with tempfile.NamedTemporaryFile(suffix="-Image") as file:
        file.write(image)
        file.flush()
        result = run.ours(machine, command(machine), image=file.name, max_instructions=limit)
    return result.exit is None


def experiment(name, machine, limit):
    """Boots with one flush left out; a row of the table."""
    folder = run.kernel(machine)
    table, addresses = symbols(folder / "System.map")
    function, operation, which = experiments(machine)[name]
    if function not in table:
        return f"| {name} | `{function}` | not in this kernel | | | |"
    whole = (folder / "Image").read_bytes()
    image, changed = patch(whole, function, operation, which, table, addresses)
    if not changed:
        return f"| {name} | `{function}` | nothing to patch | | | |"
    with tempfile.NamedTemporaryFile(suffix="-Image") as file:
        file.write(image)
        file.flush()
        load = command(machine)
        result = run.ours(machine, load, image=file.name, check=True, max_instructions=limit)
    called = "yes" if result.reports or is_called(function, machine, limit) else "no"
    done = re.search(r"mmulab: exit status (\d+)", result.console)
    ended = f"status {done[1]}" if done else result.reason
    kinds = {}
    for report in result.reports:
        kinds[report["kind"]] = kinds.get(report["kind"], 0) + 1
    found = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "silent"
    first = result.reports[0]["text"] if result.reports else ""
    return f"| {name} | `{function}` | {called} | {ended} | {found} | {first} |"


def main():
    options = script_options(__doc__)
    options.add_argument("name", nargs="*", help="only these flushes (default: all)")
    options.add_argument(
        "-m",
        "--machine",
        default="arm926ej-s",
        choices=["arm926ej-s", run.SMP],
        help="the machine (default: %(default)s)",
    )
    options.add_argument(
        "--max-instructions",
        type=int,
        default=250_000_000,
        help="end a run there (default: %(default)s)",
    )
    options.add_argument(
        "--list", action="store_true", help="print the names, each with its function, and end"
    )
    chosen = options.parse_args()
    known = experiments(chosen.machine)
    if chosen.list:
        print("\n".join(f"{name:26} {function}" for name, (function, *_) in known.items()))
        return
    if unknown := [name for name in chosen.name if name not in known]:
        options.error(f"{unknown[0]}: choose from {', '.join(known)}")
    whole_number("--max-instructions", chosen.max_instructions, 1)
    run.kernel(chosen.machine)
    print("| left out | function | called | guest ended with | checker | first report |")
    print("|---|---|---|---|---|---|")
    for name in one_by_one("Booting", chosen.name or list(known), "boots"):
        print(experiment(name, chosen.machine, chosen.max_instructions), flush=True)


if __name__ == "__main__":
    run_script(main)
