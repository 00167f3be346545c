"""The shipped recording reads as it was made, and as docs/trace-format.md says.

A change of the trace format must make it again.
"""

from collections import Counter

from independent_reader import LOAD, MODIFY, STORE, Event, Trace

import mmulab


def test_it_names_no_folder_of_a_developers_machine(trace):
    text: list[bytes] = []
    mmulab.dump_trace(trace, text.append, count=1)
    mapped = b"".join(text).decode().splitlines()
    names = {line.split(maxsplit=4)[-1] for line in mapped if line.startswith("-- map")}
    files = {name for name in names if name.startswith("/")}
    assert files and all(file.startswith("/usr/lib") for file in files), files


def test_the_shipped_recording_reads_as_it_was_made(trace):
    """A decoder that misreads addresses would still read; its cache misses would give it away."""
    base = mmulab.replay(trace, "base")["base"]
    assert base.instructions == 4_000_000
    assert base.data["caches"]["L1i"]["misses"] == 20_580
    assert base.data["caches"]["L1d"]["misses"] == 30_056


def test_a_reader_written_from_the_document_reads_the_same(trace):
    """Counts, and to the last reference what two direct-mapped caches of 64 KB make of the
    trace."""
    independent = Trace(trace)
    counts, kinds = Counter(), Counter()
    instruction_lines, data_lines = [-1] * 1024, [-1] * 1024

    def reference(lines: list[int], address: int, length: int) -> int:
        misses = 0
        for line in range(address // 64, (address + length - 1) // 64 + 1):
            misses += lines[line % 1024] != line
            lines[line % 1024] = line
        return misses

    for item in independent.items():
        if isinstance(item, Event):
            counts["events"] += 1
            continue
        block, addresses = item
        counts["blocks"] += 1
        counts["instructions"] += len(block.sizes)
        counts["L1i"] += reference(instruction_lines, block.address, sum(block.sizes))
        for (_, kind, width), address in zip(block.accesses, addresses, strict=True):
            kinds[kind] += 1
            counts["L1d"] += reference(data_lines, address, width)

    totals = independent.conclusion["totals"]
    information = mmulab.trace_information(trace)
    assert independent.command == information.command
    assert counts["instructions"] == totals["instructions"] == information.instructions
    assert kinds[LOAD] == totals["loads"] == information.loads
    assert kinds[STORE] == totals["stores"] == information.stores
    assert kinds[MODIFY] == totals["modifies"] == information.modifies
    assert counts["blocks"] == totals["blocks"]
    assert counts["events"] == totals["events"]
    assert len(independent.blocks) == totals["distinct_blocks"]
    base = mmulab.replay(trace, "base")["base"]
    assert counts["L1i"] == base.data["caches"]["L1i"]["misses"]
    assert counts["L1d"] == base.data["caches"]["L1d"]["misses"]
