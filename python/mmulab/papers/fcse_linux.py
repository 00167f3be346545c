"""The FCSE paper's claims on Linux, measured on Linux 6.12 with FCSE on its two machines, where it
is built."""

from __future__ import annotations

from mmulab.papers import ABOUT, Claim, Published, Run, about, linux, published_table
from mmulab.papers.linux import Rows, ring

SCHEMES = {"plain": "off", "guaranteed": "fcse-guaranteed", "best_effort": "fcse-best-effort"}
PROCESSES = [2, 4, 6, 8, 10, 12, 14, 16]
KILOBYTES = [0, 1, 4, 16]
FASTER_REPLY_US = 80.0
EVENER_PERIOD = 8.7
LOAD = "while true; do busybox find / > /dev/null; cat /dev/mem > /dev/null; done &"
"""What the paper ran in the background (section 5.1.1)."""
FALLS_US = {"guaranteed": 100.0, "best_effort": 50.0}


def run_linux(run: Run) -> Rows | None:
    """Every point of the claims, or None where Linux is not built."""
    if not (linux.is_built("ixp425") and linux.is_built("at91rm9200")):
        return None
    hops, samples, messages = (2000, 5000, 20) if run.full else (400, 300, 1)
    counts = " ".join(map(str, PROCESSES))
    sizes = " && ".join(f"LAT_HOPS={hops} lat ctx {size} {counts}" for size in KILOBYTES)
    rows = []
    for kernel, scheme in SCHEMES.items():
        rows += linux.measure(run, "ixp425", scheme, sizes)
        rows += linux.measure(
            run, "ixp425", scheme, f"{LOAD} cyclictest -l {samples} -i 1000 -p 50 -q"
        )
        rows += linux.measure(run, "ixp425", scheme, f"{LOAD} net reply {samples}")
        rows += linux.measure(run, "ixp425", scheme, f"net period {samples}")
        if kernel != "guaranteed":  # which refuses that many processes
            storms = (
                f"for group in 1 2 3 4 5 6 7 8 9 10; do storm pipes {messages} & done; wait; "
                "grep ctxt /proc/stat"
            )
            rows += linux.measure(run, "at91rm9200", scheme, storms)
    return rows


def judge(rows: Rows, claims: dict[str, Published]) -> list[Claim]:
    """fcse09-01 to -06 by their rules."""
    found = linux.values(rows)

    def value(kernel: str, name: str) -> float:
        return found[SCHEMES[kernel], name]

    def points(kernel: str) -> list[float]:
        return [value(kernel, ring(size, n)) for size in KILOBYTES for n in PROCESSES]

    latency = {
        kernel: [value(kernel, f"cyclictest {name}") for name in ("least", "average", "most")]
        for kernel in SCHEMES
    }
    falls = {kernel: latency["plain"][1] - latency[kernel][1] for kernel in FALLS_US}
    change = {
        size: value("plain", ring(size, 16)) / value("plain", ring(size, 2)) - 1
        for size in KILOBYTES
    }
    modes = list(zip(points("guaranteed"), points("best_effort"), strict=True))
    apart = max(modes, key=lambda pair: abs(pair[0] - pair[1]))
    grows = all(
        value(kernel, ring(size, 16)) > value(kernel, ring(size, 2))
        for kernel in FALLS_US
        for size in KILOBYTES
    )
    storm = value("best_effort", "storm") / value("plain", "storm")
    switches = value("plain", "switches since boot")
    lost = value("plain", "storm") - value("best_effort", "storm")
    far = [pair for pair in modes if abs(pair[0] - pair[1]) > max(0.1 * max(pair), 1)]
    replies = {kernel: value(kernel, "reply average") for kernel in SCHEMES}
    sooner = {kernel: replies["plain"] - replies[kernel] for kernel in FALLS_US}
    spread = {kernel: value(kernel, "period deviation") for kernel in SCHEMES}
    evener = spread["plain"] / max(spread["guaranteed"], 0.01)
    paper = published_table("fcse_2009", "table2_cyclictest")
    return [
        claims["fcse09-01"].judge(
            all(about(falls[kernel], wanted) for kernel, wanted in FALLS_US.items()),
            "least, average, most, us: "
            + "; ".join(
                f"{row['kernel']} {', '.join(f'{part:.0f}' for part in latency[row['kernel']])} "
                f"({row['min_us']}, {row['avg_us']}, {row['max_us']})"
                for row in paper
            ),
            f"the average falls by {falls['guaranteed']:.0f} us (guaranteed) and "
            f"{falls['best_effort']:.0f} us (best effort) of {latency['plain'][1]:.0f}; a switch that flushes "
            f"takes {value('plain', ring(0, 2)):.0f} us in lat_ctx, and under this load the wake-up waits for one",
        ),
        claims["fcse09-02"].judge(
            min(points("plain")) > 100 and all(abs(part) <= ABOUT for part in change.values()),
            f"{min(points('plain')):.1f} to {max(points('plain')):.1f} us; from 2 to 16 processes "
            + ", ".join(f"{part:+.0%} at {size} KB" for size, part in change.items()),
            "where it is not above 100 us, the line fill of the machine's file, a guess, times the lines that "
            "a switch of this kernel fills again is less",
        ),
        claims["fcse09-03"].judge(
            max(map(max, modes)) <= 150 and grows and not far,
            f"guaranteed {min(points('guaranteed')):.1f} to {max(points('guaranteed')):.1f} us, best effort "
            f"{min(points('best_effort')):.1f} to {max(points('best_effort')):.1f}; farthest apart "
            f"{apart[0]:.1f} and {apart[1]:.1f}; {'grows' if grows else 'does not grow'} with the processes",
            f"{sum(max(pair) > 150 for pair in modes)} of {len(modes)} points are above 150 us, the arrays of "
            f"16 KB; the modes are more than a tenth apart at {len(far)}, by at most "
            f"{max(abs(a - b) for a, b in modes):.1f} us",
        ),
        claims["fcse09-04"].judge(
            about(storm, 0.5),
            f"best effort / plain {storm:.2f}: {value('best_effort', 'storm'):.2f} and "
            f"{value('plain', 'storm'):.2f} s",
            f"{switches:,.0f} switches of the unmodified kind, of which each lost "
            f"{lost / max(switches, 1) * 1e6:.0f} us: the rest of the time is not the flush's",
        ),
        claims["fcse09-05"].judge(
            all(about(part, FASTER_REPLY_US) for part in sooner.values()),
            "UDP over loopback, average of the reply, us: "
            + ", ".join(f"{kernel} {part:.0f}" for kernel, part in replies.items()),
            f"sooner by {sooner['guaranteed']:.0f} us (guaranteed) and {sooner['best_effort']:.0f} us (best effort): "
            f"one switch lies in it, which costs {value('plain', ring(0, 2)):.0f} us in lat_ctx when it flushes",
        ),
        claims["fcse09-06"].judge(
            about(evener, EVENER_PERIOD),
            "deviation of a 500 us period, us: "
            + ", ".join(f"{kernel} {part:.1f}" for kernel, part in spread.items())
            + f"; plain over guaranteed {evener:.1f}",
            "threads of Linux in place of Xenomai's: at every second period two of them wake at once, and the "
            "timer's interrupt, the kernel's own and not a co-kernel's, is in both",
        ),
    ]
