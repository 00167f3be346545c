"""The FASS paper's claims on Linux, measured on Linux 6.12 with FASS on sa1100, where it is
built."""

from __future__ import annotations

from statistics import median

from mmulab.papers import Claim, Published, Run, about, linux, published_table
from mmulab.papers.linux import Rows, ring

MACHINE = "sa1100"
SCHEMES = {"original": "off", "fast": "fass"}
SHARED = "fass-shared"
AT_0_KB = [2, 8, 13, 14, 16, 20, 24]
KILOBYTES = [0, 1, 4, 16]
FEW = [2, 4]
SHARERS = [2, 4, 8, 13]
MOST_GAIN, LEAST_GAIN = 0.23, -0.02
"""What the paper says of TLB sharing, and how much of a loss is still none."""
ROWS = {
    ("hot_potato_latency", "fcntl"): "fcntl",
    ("hot_potato_latency", "fifo"): "fifo",
    ("hot_potato_latency", "pipe"): "pipe",
    ("hot_potato_latency", "unix"): "unix",
    ("hot_potato_bandwidth", "pipe"): "bw_pipe",
    ("hot_potato_bandwidth", "unix"): "bw_unix",
    ("proc_create", "fork"): "fork",
    ("proc_create", "exec"): "exec",
    ("proc_create", "shell"): "sh",
}
"""Our programs for the rows of table 1."""
BEYOND = [14, 16, 20, 24]


def run_linux(run: Run) -> Rows | None:
    """Every point of the claims, or None where Linux is not built."""
    if not linux.is_built(MACHINE):
        return None
    hops = "" if run.full else "LAT_HOPS=400 "
    commands = [
        f"{hops}lat ctx 0 {' '.join(map(str, sorted({*AT_0_KB, *FEW})))}",
        " && ".join(f"{hops}lat ctx {size} 2 4" for size in KILOBYTES if size),
        " && ".join(f"lat {name}" for name in ROWS.values()),
    ]
    # The processes of lat_ctx have in common what they have of their program's text, where it can
    # be shared.
    sharers = f"{hops}lat-text-high ctx 0 {' '.join(map(str, SHARERS))}"
    return [
        *(
            row
            for scheme in SCHEMES.values()
            for command in commands
            for row in linux.measure(run, MACHINE, scheme, command)
        ),
        *linux.measure(run, MACHINE, SHARED, sharers),
    ]


def judge(rows: Rows, claims: dict[str, Published]) -> list[Claim]:
    """fass03-01 to -06 by their rules."""
    found = linux.values(rows)

    def original(name: str) -> float:
        return found[SCHEMES["original"], name]

    def fast(name: str) -> float:
        return found[SCHEMES["fast"], name]

    def switch(processes: int) -> str:
        """Both times of a switch, in words."""
        point = ring(0, processes)
        return f"{original(point):.1f} / {fast(point):.1f} us with {processes} processes"

    def ratio(processes: int) -> float:
        return original(ring(0, processes)) / fast(ring(0, processes))

    why = (
        f"Linux 6.12 at the clock of the machine's file: {switch(2)}, {switch(13)}; what remains of a switch "
        "is the scheduler's path and what the processes and the kernel evict of each other"
    )
    table = {}
    for row in published_table("fass_2003", "table1_linux"):
        name = ROWS[row["benchmark"], row["variant"]]
        ours = fast(name) / original(name) if row["unit"] == "MB/s" else original(name) / fast(name)
        table[name] = (ours, float(row["ratio"]))
    beyond = {n: 1 / ratio(n) for n in BEYOND}
    before = (fast(ring(0, 13)) - fast(ring(0, 8))) / 5
    after = (fast(ring(0, 16)) - fast(ring(0, 13))) / 3
    gains = {n: 1 - found[SHARED, ring(0, n)] / fast(ring(0, n)) for n in SHARERS}
    saved = {n: [original(ring(size, n)) - fast(ring(size, n)) for size in KILOBYTES] for n in FEW}
    return [
        claims["fass03-01"].judge(
            all(about(ours, paper) for ours, paper in table.values()),
            "original / fast: "
            + ", ".join(f"{name} {ours:.2f} ({paper:g})" for name, (ours, paper) in table.items()),
            why,
        ),
        claims["fass03-02"].judge(about(ratio(2), 57), f"{ratio(2):.1f} times: {switch(2)}", why),
        claims["fass03-03"].judge(about(ratio(13), 4), f"{ratio(13):.1f} times: {switch(13)}", why),
        claims["fass03-04"].judge(
            all(share < 0.6 for share in beyond.values()) and after > 2 * max(before, 0),
            "fast / original "
            + ", ".join(f"{share:.2f} with {n}" for n, share in beyond.items())
            + f"; {before:+.2f} us a process from 8 to 13, {after:+.2f} from 13 to 16",
            why,
        ),
        claims["fass03-05"].judge(
            all(about(value, median(series)) for series in saved.values() for value in series),
            "; ".join(
                f"{n} processes, 0, 1, 4, 16 KB: " + ", ".join(f"{value:.1f}" for value in series)
                for n, series in saved.items()
            )
            + " us",
            why,
        ),
        claims["fass03-06"].judge(
            min(gains.values()) >= LEAST_GAIN and about(max(gains.values()), MOST_GAIN),
            "gain of sharing: " + ", ".join(f"{gain:.0%} with {n}" for n, gain in gains.items()),
            f"with 2 processes {fast(ring(0, 2)):.1f} us become {found[SHARED, ring(0, 2)]:.1f}, with 13 "
            f"{fast(ring(0, 13)):.1f} become {found[SHARED, ring(0, 13)]:.1f}: one program's text is shared, its "
            "translations and its lines in the instruction cache, which the kernel's path nearly fills; "
            "the kernel's own are shared by all under FASS anyway",
        ),
    ]
