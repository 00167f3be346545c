"""Figures 6 to 13 of the 1998 study, from our cells."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import altair as alt

from mmulab.causes import BY_NAME
from mmulab.papers import Figure
from mmulab.papers.vm_study_cells import KIB, PLOTTED_LINES, WITH_TLB, Cell, Cells
from mmulab.report.plots import CAUSE_COLOURS, GROUP_COLOURS

FIGURE_L1 = (8 * KIB, 32 * KIB, 128 * KIB)
NAMES = {
    "ultrix": "ULTRIX",
    "mach": "MACH",
    "intel": "INTEL",
    "pa-risc": "PA-RISC",
    "inverted-hw": "INVERTED-HW",
    "notlb": "NOTLB",
    "base": "BASE",
}
COMPONENTS = [
    "handler-MEM",
    "handler-L2",
    "rpte-MEM",
    "rpte-L2",
    "rhandler",
    "kpte-MEM",
    "kpte-L2",
    "khandler",
    "upte-MEM",
    "upte-L2",
    "uhandler",
]
"""Components of VMCPI from the top of a bar to its bottom, as the study stacks them."""
OVERHEADS = {
    "interrupts at 200 cycles": "#d6c3e8",
    "interrupts at 50 cycles": "#b391d4",
    "interrupts at 10 cycles": GROUP_COLOURS["interrupt"],
    "VMCPI": GROUP_COLOURS["translation"],
    "MCPI": GROUP_COLOURS["cache"],
}
"""Parts of the total from the top of a bar to its bottom, and their colours."""


def figures(cells: Cells) -> list[Figure]:
    """All figures, in the paper's order; each has its claims beside it in `says`."""
    return [
        Figure(
            "figure-06",
            "VMCPI over cache sizes and line sizes, gcc-like",
            "ULTRIX and MACH look alike; the lines matter by up to a factor of two except for "
            "PA-RISC with large first levels; NOTLB varies most and on a scale of its own with "
            "the smallest second level.",
            curves(cells, "gcc-like"),
        ),
        Figure(
            "figure-07",
            "VMCPI over cache sizes and line sizes, vortex-like",
            "As figure 6, higher throughout; NOTLB needs a scale of its own for two of the three "
            "second levels.",
            curves(cells, "vortex-like"),
        ),
        Figure(
            "figure-08",
            "What VMCPI consists of, gcc-like, 64/128-byte lines",
            "uhandler is constant with a TLB and dominates as caches grow; upte-L2 of PA-RISC does "
            "not taper off; INTEL alone has a visible rpte-L2 and rpte-MEM; MACH exceeds ULTRIX "
            "in rpte-MEM.",
            breakdown(cells, "gcc-like"),
        ),
        Figure(
            "figure-09",
            "What VMCPI consists of, vortex-like, 64/128-byte lines",
            "upte-L2 of PA-RISC falls by about 80% over the first levels, the others' by about "
            "50%; upte-MEM of PA-RISC is much the smallest.",
            breakdown(cells, "vortex-like"),
        ),
        Figure(
            "figure-10",
            "Instructions between TLB misses",
            "ULTRIX and MACH, with 112 slots for the program, have paths about 30% shorter than "
            "INTEL and PA-RISC with 128; a factor of two in TLB size can make an order of "
            "magnitude.",
            mean_free_paths(cells),
        ),
        *(
            Figure(
                f"figure-{number}",
                f"Total overhead, {program}, 64/128-byte lines",
                says,
                totals(cells, program),
            )
            for number, program, says in (
                (
                    11,
                    "gcc-like",
                    "INTEL is lowest of the hierarchical tables at every interrupt cost; interrupts "
                    "cost about as much as VMCPI and more at 200 cycles; caches four times the size "
                    "can halve the total.",
                ),
                (12, "vortex-like", "As figure 11; MCPI exceeds BASE's by about 20% in misses."),
                (
                    13,
                    "ijpeg-like",
                    "All totals are well below 1; PA-RISC is worst, MACH and ULTRIX differ.",
                ),
            )
        ),
    ]


def data(rows: list[dict[str, Any]]) -> alt.Data:
    """Rows as inline data, so that a figure stands alone."""
    return alt.Data(values=rows)


def kib(size_bytes: int) -> str:
    """A size as the axes label it."""
    size = size_bytes // KIB
    return f"{size // KIB} MB" if size >= KIB and size % KIB == 0 else f"{size} KB"


def curves(cells: Cells, program: str) -> alt.Chart:
    """One graph for each organisation and second level; a curve for each pair of line sizes."""
    organisations = [name for name in NAMES if name in (*WITH_TLB, "notlb")]
    rows = [
        {
            "organisation": NAMES[cell.configuration.organisation],
            "L1": cell.configuration.l1_bytes // KIB,
            "L2": f"L2 {kib(cell.configuration.l2_bytes)} a side",
            "L1 line": cell.configuration.l1_line_bytes,
            "L2 line": cell.configuration.l2_line_bytes,
            "VMCPI": round(cell.vmcpi, 5),
            "text": f"{place(cell)}, lines of {cell.configuration.l1_line_bytes} and "
            f"{cell.configuration.l2_line_bytes} bytes: VMCPI {cell.vmcpi:.4f}",
        }
        for cell in cells.where(program=program, organisation=organisations, tlb_entries=128)
    ]
    labels = [f"L2 {kib(size)} a side" for size in cells.sizes("l2_bytes")]
    base = alt.Chart(width=130, height=130).encode(
        x=alt.X("L1:Q", scale=alt.Scale(type="log", base=2), title="L1 a side, KB"),
        y=alt.Y("VMCPI:Q", title="VMCPI"),
        color=alt.Color("L1 line:O", title="L1 line, bytes", scale=alt.Scale(scheme="viridis")),
        detail=["L1 line:O", "L2 line:O"],
    )
    dashed = base.mark_line(strokeWidth=1).encode(
        strokeDash=alt.StrokeDash(
            "L2 line:O",
            title="L2 line, bytes",
            legend=alt.Legend(
                symbolType="stroke", symbolStrokeColor="gray", symbolStrokeWidth=1, symbolSize=300
            ),
        )
    )
    return (
        alt.layer(
            dashed,
            base.mark_circle(size=12, opacity=1).encode(description="text:N"),
            data=data(rows),
        )
        .facet(
            row=alt.Row("L2:N", sort=labels, title=None),
            column=alt.Column(
                "organisation:N", sort=[NAMES[name] for name in organisations], title=None
            ),
        )
        .resolve_scale(y="independent")
    )


def place(cell: Cell) -> str:
    """The organisation and caches of a cell, for the text of a mark."""
    one = cell.configuration
    return f"{NAMES[one.organisation]}, L1 {kib(one.l1_bytes)} and L2 {kib(one.l2_bytes)} a side"


def plotted(cells: Cells, **wanted: object) -> list[Cell]:
    """Cells of the study's break-downs: 64/128-byte lines."""
    l1_line, l2_line = PLOTTED_LINES
    return cells.where(l1_line_bytes=l1_line, l2_line_bytes=l2_line, **wanted)


def breakdown(cells: Cells, program: str) -> alt.Chart:
    """Stacked components over first-level sizes, a bar for each second level."""
    organisations = [*WITH_TLB, "inverted-hw", "notlb"]
    rows = [
        {
            "organisation": NAMES[cell.configuration.organisation],
            "L1": kib(cell.configuration.l1_bytes),
            "L2": kib(cell.configuration.l2_bytes),
            "component": component,
            "order": order,
            "CPI": round(cell.cpi(component), 6),
            "text": f"{place(cell)}: {component}, {cell.cpi(component):.4f} cycles per instruction\n"
            f"{BY_NAME[component].text}",
        }
        for cell in plotted(cells, program=program, organisation=organisations, tlb_entries=128)
        for order, component in enumerate(reversed(COMPONENTS))
        if cell.cpi(component)
    ]
    return (
        alt.Chart(data(rows), height=180)
        .mark_bar()
        .encode(
            x=alt.X("L1:N", sort=[kib(size) for size in cells.sizes("l1_bytes")], title="L1"),
            xOffset=alt.XOffset("L2:N", sort=[kib(size) for size in cells.sizes("l2_bytes")]),
            y=alt.Y("CPI:Q", title="VMCPI"),
            color=alt.Color(
                "component:N",
                scale=alt.Scale(domain=COMPONENTS, range=[CAUSE_COLOURS[c] for c in COMPONENTS]),
                title=None,
            ),
            order=alt.Order("order:Q"),
            description="text:N",
            facet=alt.Facet(
                "organisation:N",
                columns=3,
                sort=[NAMES[name] for name in organisations],
                title="a bar for each second level, smallest first",
            ),
        )
        .resolve_scale(x="independent", y="independent")
    )


def mean_free_paths(cells: Cells) -> alt.Chart:
    """By organisation with 128 entries, and by TLB size."""
    programs = sorted({cell.program for cell in cells})
    rows = []
    for program in programs:
        for organisation in WITH_TLB:
            for entries in cells.sizes("tlb_entries"):
                found = plotted(
                    cells, program=program, organisation=organisation, tlb_entries=entries
                )
                if found:
                    path = round(fmean(cell.mean_free_path for cell in found))
                    rows.append(
                        {
                            "program": program,
                            "organisation": NAMES[organisation],
                            "entries": entries,
                            "instructions": path,
                            "text": f"{NAMES[organisation]}, {entries} entries a side, {program}: "
                            f"{path:,} instructions between TLB misses",
                        }
                    )
    order = [NAMES[name] for name in WITH_TLB]
    by_organisation = (
        alt.Chart(data([row for row in rows if row["entries"] == 128]), width=150, height=170)
        .mark_bar()
        .encode(
            x=alt.X("organisation:N", sort=order, title=None),
            y=alt.Y("instructions:Q", title="instructions between TLB misses"),
            color=alt.Color("organisation:N", sort=order, legend=None),
            column=alt.Column("program:N", title="128 entries a side"),
            description="text:N",
        )
        .resolve_scale(y="independent")
    )
    by_size = (
        alt.Chart(data(rows), width=150, height=170)
        .mark_line(point=True)
        .encode(
            x=alt.X("entries:O", title="entries a side"),
            y=alt.Y(
                "instructions:Q", scale=alt.Scale(type="log"), title="instructions between misses"
            ),
            color=alt.Color("organisation:N", sort=order, title=None),
            column=alt.Column("program:N", title="over TLB sizes"),
            description="text:N",
        )
        .resolve_scale(y="independent")
    )
    return alt.vconcat(by_organisation, by_size).resolve_scale(color="independent")


def totals(cells: Cells, program: str) -> alt.Chart:
    """Total overhead by organisation: two second levels, two TLB sizes, three interrupt costs."""
    rows = []
    l2_sizes = cells.sizes("l2_bytes")
    for cell in plotted(
        cells,
        program=program,
        organisation=list(NAMES),
        l1_bytes=FIGURE_L1,
        l2_bytes=(l2_sizes[0], l2_sizes[-1]),
        tlb_entries=(64, 128),
    ):
        parts = [
            cell.interrupt_cpi(200) - cell.interrupt_cpi(50),
            cell.interrupt_cpi(50) - cell.interrupt_cpi(10),
            cell.interrupt_cpi(10),
            cell.vmcpi,
            cell.mcpi,
        ]
        configuration = cell.configuration
        entries = (
            ""
            if configuration.organisation in ("notlb", "base")
            else f", {configuration.tlb_entries}"
        )
        whole = [*(cell.interrupt_cpi(cost) for cost in (200, 50, 10)), *parts[3:]]
        for order, (part, value) in enumerate(zip(OVERHEADS, parts, strict=True)):
            rows.append(
                {
                    "organisation": NAMES[configuration.organisation],
                    "L1": f"L1 {kib(configuration.l1_bytes)} a side",
                    "which": f"{kib(configuration.l2_bytes)}{entries}",
                    "part": part,
                    "order": -order,
                    "CPI": round(value, 6),
                    "text": f"{place(cell)}{entries and f'{entries} TLB entries'}: {part}, "
                    f"{whole[order]:.4f} cycles per instruction",
                }
            )
    bars = [
        f"{kib(size)}{entries}"
        for size in (l2_sizes[0], l2_sizes[-1])
        for entries in (", 64", ", 128", "")
    ]
    return (
        alt.Chart(data(rows), width=230, height=220)
        .mark_bar()
        .encode(
            x=alt.X("organisation:N", sort=list(NAMES.values()), title=None),
            xOffset=alt.XOffset("which:N", sort=bars),
            y=alt.Y("CPI:Q", title="cycles per instruction over 1"),
            color=alt.Color(
                "part:N",
                scale=alt.Scale(domain=list(OVERHEADS), range=list(OVERHEADS.values())),
                title=None,
            ),
            order=alt.Order("order:Q"),
            description="text:N",
            column=alt.Column(
                "L1:N",
                sort=[f"L1 {kib(size)} a side" for size in FIGURE_L1],
                title="bars: L2 a side, TLB entries; an interrupt cost includes the ones below it",
            ),
        )
        .resolve_scale(y="independent")
    )
