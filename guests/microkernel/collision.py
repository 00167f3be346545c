"""Draws docs/images/fass-collision.svg: one collision of the FASS kernel on the SA-1100, from the
timeline that `mmulab boot --timeline` writes.

    python guests/microkernel/collision.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import altair as alt
import vl_convert

import mmulab

ROOT = Path(__file__).resolve().parents[2]
TRACKS = ["address space", "mode", "flushes"]


def main() -> None:
    """Boots the event program, cuts the collision out of its timeline, draws it."""
    with tempfile.TemporaryDirectory() as folder:
        timeline = Path(folder) / "timeline.json"
        image = ROOT / "build/guests/microkernel-armv4.elf"
        mmulab.boot(image, "sa1100", append="scheme=fass run=events", timeline=timeline)
        events = json.loads(timeline.read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    marked = next(e["ts"] for e in events if e.get("name") == "collision")
    abort = next(
        e["ts"] for e in events if e.get("name") == "data abort" and e.get("ts", 0) > marked
    )
    start, end = abort - 4, abort + 64
    rows = []
    for event in events:
        track = names.get(event.get("tid"))
        if event.get("ph") != "X" or track not in TRACKS:
            continue
        if event["ts"] > end or event["ts"] + event["dur"] < start:
            continue
        rows.append(
            {
                "track": track,
                "what": event["name"].removeprefix("table 0x4000 "),
                "from": max(event["ts"], start) - abort,
                # Single operations are one cycle long and would not be seen.
                "to": min(max(event["ts"] + event["dur"], event["ts"] + 0.4), end) - abort,
            }
        )
    chart = (
        alt.Chart(alt.Data(values=rows), width=640, height=120)
        .mark_bar(height=22)
        .encode(
            x=alt.X("from:Q", title="microseconds after the domain fault"),
            x2="to:Q",
            y=alt.Y("track:N", sort=TRACKS, title=None),
            color=alt.Color("what:N", title=None, scale=alt.Scale(scheme="tableau20")),
        )
    )
    out = ROOT / "docs/images/fass-collision.svg"
    out.write_text(vl_convert.vegalite_to_svg(chart.to_dict()))


if __name__ == "__main__":
    main()
