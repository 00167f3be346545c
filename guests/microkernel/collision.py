"""Draws docs/images/fass-collision.svg: one collision of the FASS kernel on the SA-1100, from the
timeline that `mmulab boot --timeline` writes.

    .venv/bin/python guests/microkernel/collision.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import altair as alt
import vl_convert

import mmulab
from mmulab import guests
from mmulab.command import run_script, script_options

ROOT = Path(__file__).resolve().parents[2]
TRACKS = ["address space", "mode", "flushes"]


def said(name: str) -> str:
    """What the timeline calls it, in words."""
    if name.startswith("table"):
        return "PID " + name.split("PID ")[1].split()[0]
    words = {
        "line operations": "loads that evict",
        "dcache flush": "D-cache",
        "icache flush": "I-cache",
        "TLB flush": "TLB",
    }
    return words.get(name, name)


def joined(rows: list[dict]) -> list[dict]:
    """Bars of the same that follow each other are one."""
    result: list[dict] = []
    for track in TRACKS:
        for row in sorted((row for row in rows if row["track"] == track), key=lambda r: r["from"]):
            same = result and (result[-1]["track"], result[-1]["what"]) == (track, row["what"])
            if same and row["from"] - result[-1]["to"] < 0.1:
                result[-1]["to"] = row["to"]
            else:
                result.append(row)
    return result


def main() -> None:
    """Boots the event program, cuts the collision out of its timeline, draws it."""
    script_options(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        timeline = Path(folder) / "timeline.json"
        image = guests.image("microkernel-armv4")
        mmulab.boot(image, "sa1100", append="scheme=fass run=events", timeline=timeline)
        events = json.loads(timeline.read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    marked = next(e["ts"] for e in events if e.get("name") == "collision")
    abort = next(
        e["ts"] for e in events if e.get("name") == "data abort" and e.get("ts", 0) > marked
    )
    start, end = abort - 6, abort + 66
    rows = []
    for event in events:
        track = names.get(event.get("tid"))
        if event.get("ph") != "X" or track not in TRACKS:
            continue
        first, last = event["ts"], event["ts"] + event["dur"]
        if first > end or last < start:
            continue
        rows.append(
            {
                "track": track,
                "what": said(event["name"]),
                "from": max(first, start) - abort,
                # Single operations are one cycle long and would not be seen.
                "to": min(max(last, first + 0.4), end) - abort,
            }
        )
    rows = joined(rows)
    base = alt.Chart(alt.Data(values=rows), width=720, height=150).encode(
        x=alt.X("from:Q", title="microseconds after the domain fault"),
        y=alt.Y("track:N", sort=TRACKS, title=None, axis=alt.Axis(labelFontSize=12)),
    )
    bars = base.mark_bar(height=24).encode(
        x2="to:Q",
        color=alt.Color("what:N", legend=None, scale=alt.Scale(scheme="pastel1")),
    )
    # Labels stand in the bars where they fit, those of single operations under them.
    inside = (
        base.mark_text(align="left", dx=4, fontSize=11)
        .encode(text="what:N")
        .transform_filter("(datum.to - datum.from) * 10 > 7 * length(datum.what)")
    )
    before = (
        base.mark_text(align="right", dx=4, dy=19, fontSize=11)
        .encode(text="what:N")
        .transform_filter("datum.what == 'D-cache'")
    )
    after = (
        base.mark_text(align="left", dx=2, dy=19, fontSize=11)
        .encode(text="what:N")
        .transform_filter("datum.what == 'I-cache' || datum.what == 'TLB'")
    )
    chart = (bars + inside + before + after).properties(
        padding={"left": 12, "right": 12, "top": 5, "bottom": 5}
    )
    out = ROOT / "docs/images/fass-collision.svg"
    out.write_text(vl_convert.vegalite_to_svg(chart.to_dict()))
    print(out.relative_to(ROOT))


if __name__ == "__main__":
    run_script(main)
