"""Linux with one flush left out at a time: what does the checker say?

    flushes.py [-m MACHINE] [NAME...]

Patches the built kernel image: a function's first instruction becomes a return, or single
maintenance instructions inside a function become no-ops. Boots each with the checker and runs
hackbench; prints a Markdown table. Needs `make linux`.
"""

import argparse
import re
import struct
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run

TEXT = 0xC0008000  # where the first byte of Image runs
RETURN = 0xE1A0F00E  # mov pc, lr
RETURN_ZERO = (0xE3A00000, RETURN)
NO_OPERATION = 0xE1A00000
STOP_HERE = 0xEAFFFFFE  # b .
CLEAN_IS_DONE = 0xE1300000  # teq r0, r0: the loop around it ends at once

# CP15 operations, without the register.
CLEAN_LINE, DRAIN, ICACHE_ALL, TLB_ALL = 0xEE070F3A, 0xEE070F9A, 0xEE070F15, 0xEE080F17
TEST_CLEAN_INVALIDATE = 0xEE17FF7E

# (function, operation inside it or None for the whole function)
EXPERIMENTS = {
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

COMMAND = "hackbench -p -g 1 -l 20; hackbench -T -g 1 -l 5; cp /bin/busybox /tmp/busybox && /tmp/busybox true"


def symbols(system_map):
    """Addresses by name, and all text addresses in order."""
    table = {}
    for line in system_map.read_text().splitlines():
        address, kind, name = line.split()
        if kind in "tT":
            table[name] = int(address, 16)
    return table, sorted(set(table.values()))


def patch(image, function, operation, table, addresses):
    """The image without the function or operation; and how many instructions changed."""
    words = bytearray(image)
    start = table[function]
    end = next(address for address in addresses if address > start)
    if operation is None:
        code = RETURN_ZERO if "coherent" in function else (RETURN,)
        struct.pack_into(f"<{len(code)}I", words, start - TEXT, *code)
        return bytes(words), 1
    changed = 0
    for offset in range(start - TEXT, end - TEXT, 4):
        word = struct.unpack_from("<I", words, offset)[0]
        same = (
            word == operation if operation == TEST_CLEAN_INVALIDATE else word & ~0xF000 == operation
        )
        if same:
            new = CLEAN_IS_DONE if operation == TEST_CLEAN_INVALIDATE else NO_OPERATION
            struct.pack_into("<I", words, offset, new)
            changed += 1
    return bytes(words), changed


def is_called(function, machine, limit):
    """Whether the load ever comes to a function: one that stops there never ends."""
    folder = run.kernel(machine)
    table, _ = symbols(folder / "System.map")
    image = bytearray((folder / "Image").read_bytes())
    struct.pack_into("<I", image, table[function] - TEXT, STOP_HERE)
    with tempfile.NamedTemporaryFile(suffix="-Image") as file:
        file.write(image)
        file.flush()
        result = run.ours(machine, COMMAND, image=file.name, max_instructions=limit)
    return result.exit is None


def experiment(name, machine, limit):
    """Boots with one flush left out; a row of the table."""
    folder = run.kernel(machine)
    table, addresses = symbols(folder / "System.map")
    function, operation = EXPERIMENTS[name]
    if function not in table:
        return f"| {name} | `{function}` | not in this kernel | | | |"
    image, changed = patch((folder / "Image").read_bytes(), function, operation, table, addresses)
    if not changed:
        return f"| {name} | `{function}` | nothing to patch | | | |"
    with tempfile.NamedTemporaryFile(suffix="-Image") as file:
        file.write(image)
        file.flush()
        result = run.ours(machine, COMMAND, image=file.name, check=True, max_instructions=limit)
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
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("name", nargs="*", choices=[[], *EXPERIMENTS])
    options.add_argument("-m", "--machine", default="arm926ej-s")
    options.add_argument("--max-instructions", type=int, default=250_000_000)
    chosen = options.parse_args()
    print("| left out | function | called | guest ended with | checker | first report |")
    print("|---|---|---|---|---|---|")
    for name in chosen.name or EXPERIMENTS:
        print(experiment(name, chosen.machine, chosen.max_instructions), flush=True)


if __name__ == "__main__":
    main()
