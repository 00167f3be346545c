"""The report: self-contained, complete, and made of what a folder holds."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import altair as alt
import pyarrow as pa
import pyarrow.parquet
import pytest
from conftest import mmulab as command

import mmulab
from mmulab import papers
from mmulab.causes import CAUSES
from mmulab.errors import InputError
from mmulab.provenance import inputs_provenance
from mmulab.report import plots, write_report, write_reproduction

VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}


class Balance(HTMLParser):
    """Fails where an element is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(trace: Path, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("report")
    results = mmulab.replay(trace, ["base", "ultrix", "intel", "x86-64"])
    (folder / "replay.json").write_text(json.dumps(results.to_dicts()))
    (folder / "miss-curves.json").write_text(json.dumps(mmulab.miss_curves(trace).to_dict()))
    study = mmulab.Study([trace], ["ultrix"], [{"dtlb.entries": [32, 64]}])
    mmulab.sweep(study, folder / "tlb.parquet")
    return write_report(folder).read_text()


def test_the_page_is_balanced_html(page):
    balance = Balance()
    balance.feed(page)
    assert balance.open == []


def test_the_page_loads_nothing(page):
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#)""", page)
    assert "url(" not in page and "@import" not in page
    assert set(re.findall(r"https?://[^\"' <)]+", page)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_values_of_guesses_that_change_nothing_are_counted_and_left_out(page, trace):
    results = mmulab.replay(trace, ["base", "ultrix", "intel", "x86-64"])
    others = [(row, guess) for row in results for guess in row.data["guesses"]]
    effective = [
        guess["translation_share_at"]["10"] != row.translation_share(10) for row, guess in others
    ]
    assert 0 < sum(effective) < len(others)
    assert f"that change nothing here, {len(others) - sum(effective)}." in page
    listed = page.split("Each guess alone")[1].split("</details>")[0]
    assert listed.count("<tr><td>") == sum(effective)


def test_a_difference_that_rounds_to_nothing_has_no_sign(page):
    """Not +0.00 and -0.00."""
    assert not re.search(r"[+-]0\.00<", page) and re.search(r"[+-]0\.0[1-9]<", page)


def test_lines_end_between_the_words_of_a_dotted_path(page):
    """A phone's lines are shorter than some paths, and a path that breaks within a word cannot be
    read."""
    cells = re.findall(r"<code>([^<]*(?:<wbr>[^<]*)*)</code>", page)
    paths = [cell for cell in cells if "organisation" in cell and " = " in cell]
    longest = max((word for path in paths for word in path.split("<wbr>")), key=len)
    assert paths and len(longest) < 25, longest


def test_the_headline_and_the_choice_of_a_machine_fit_a_phone_where_values_were_changed(
    trace, tmp_path
):
    changes = {"interrupts.small_page_fault_cycles": 5400, "memory.fragmentation_percent": 50}
    machines = [mmulab.Machine.load(name).with_changes(changes) for name in ("zen5", "x86-64")]
    for several in (machines, machines[:1]):
        results = mmulab.replay(trace, several, guesses=False)
        (tmp_path / "replay.json").write_text(json.dumps(results.to_dicts()))
        page = write_report(tmp_path).read_text()
        headline = re.search(r'<p class="lead">(.*?)</p>', page)[1]
        words = re.split(r"<wbr>| ", headline)
        assert "5400" in words and max(map(len, words)) < 25, headline
        assert re.search(r"^select \{ max-width: 100%;", page, re.MULTILINE)


def test_the_page_says_what_was_found(page, trace):
    results = mmulab.replay(trace, ["ultrix"])
    assert f"{results['ultrix'].vmcpi:.4f}" in page
    for expected in (
        "Where every cycle goes",
        "upte-MEM",
        "Huge pages would",
        "Sweep tlb",
        "[heap]",
    ):
        assert expected in page


def test_marks_of_plots_describe_themselves(page):
    labels = re.findall(r'aria-label="(ultrix: [^"]*)"', page)
    assert any("upte-L2" in label for label in labels)


def test_the_same_results_give_the_same_page(trace, tmp_path):
    (tmp_path / "replay.json").write_text(
        json.dumps(mmulab.replay(trace, ["ultrix", "base"]).to_dicts())
    )
    first = write_report(tmp_path).read_bytes()
    assert write_report(tmp_path, tmp_path / "again.html").read_bytes() == first


def test_labels_have_room_whichever_fonts_this_computer_has():
    """The page may be read where fonts are wider than here."""

    def width(name):
        chart = alt.Chart(alt.InlineData([{"machine": name, "cpi": 1}]), width=100).mark_bar()
        drawn = plots.svg(chart.encode(x="cpi:Q", y=alt.Y("machine:N", title=None)))
        assert plots.MEASURED_FONT not in drawn and plots.FONT in drawn
        return float(re.search(r'viewBox="0 0 ([0-9.]+) ', drawn)[1])

    assert width("i" * 11) == width("M" * 11) == width("neoverse-n1")
    dejavu_sans_pixels = {"neoverse-n1": 75, "neoverse-n1-of-another-year": 172}
    for name, pixels in dejavu_sans_pixels.items():
        assert width(name) >= 100 + pixels


def test_a_machine_without_translation_alone_makes_a_page(trace, tmp_path):
    (tmp_path / "replay.json").write_text(json.dumps(mmulab.replay(trace, "base").to_dicts()))
    assert "None of these machines translates" in write_report(tmp_path).read_text()


@pytest.mark.parametrize(
    ("joined", "title"),
    [
        ("/usr/bin/cc1 -quiet 'a b.c'", "cc1 -quiet 'a b.c'"),
        ("'/tmp/my dir/my prog' 'an arg'", "'my prog' 'an arg'"),
    ],
)
def test_the_title_is_the_programs_name_and_its_arguments(joined, title, trace, tmp_path):
    information = json.loads(command("trace", "info", trace).output) | {"command": joined}
    (tmp_path / "trace.json").write_text(json.dumps(information))
    shown = re.search(r"<title>(.*) · mmulab</title>", write_report(tmp_path).read_text())
    assert shown is not None and html.unescape(shown[1]) == title


def test_the_cheapest_machine_is_that_of_the_shares_beside_it(trace, tmp_path):
    """Each share is told at its machine's first cost of an interrupt, so the order goes by that,
    too."""
    deep = mmulab.Machine.load("ultrix").with_changes({"interrupts.costs_cycles": [500]})
    results = mmulab.replay(trace, ["mach", deep, "x86-64"], guesses=False)
    cheapest, _, dearest = sorted(
        results, key=lambda row: row.translation_share(row.interrupt_costs_cycles[0])
    )
    assert dearest is results[1]
    assert dearest.translation_share(10) < cheapest.translation_share(10)
    (tmp_path / "replay.json").write_text(json.dumps(results.to_dicts()))
    lead = re.search(r'<p class="lead">(.*)</p>', write_report(tmp_path).read_text())
    assert lead is not None
    assert re.search(rf" on {cheapest.machine} and .* on ultrix ", lead[1])
    assert lead[1].endswith("with interrupts at the first cost of each machine.")


@pytest.mark.parametrize("has_trace", [True, False])
def test_a_part_of_a_trace_is_told_to_be_one(has_trace, trace, tmp_path):
    """Its numbers stand beside those of the whole trace and would be taken for them."""
    options = ["--skip", "1000", "--warmup", "2000", "--limit", "300000"]
    command("replay", trace, "-m", "ultrix", *options, "-o", tmp_path / "replay.json")
    if has_trace:
        command("trace", "info", trace, "-o", tmp_path / "trace.json")
    page = write_report(tmp_path).read_text()
    part = "1,000 instructions skipped, 2,000 instructions to warm up, 300,000 instructions at most"
    assert page.count(part) == 2  # at the top, and where the numbers come from
    assert "of the run time of this part of the program" in page
    command("replay", trace, "-m", "ultrix", "-o", tmp_path / "replay.json")
    whole = html.unescape(write_report(tmp_path).read_text())
    assert "instructions at most" not in whole and "of this program's run time" in whole


def test_shares_of_parts_add_up_where_some_are_left_out(trace, tmp_path):
    results = mmulab.replay(trace, ["ultrix", "x86-64"], guesses=False)
    (tmp_path / "replay.json").write_text(json.dumps(results.to_dicts()))
    page = write_report(tmp_path).read_text()
    table = page.split("Which parts of the program pay")[1].split("</table>")[0]
    shares = [float(share) for share in re.findall(r">([\d.]+)%<", table)]
    assert (
        len({region["name"] for region in results[0].data["regions"]}) > 14
        and " more</td>" in table
    )
    assert sum(shares) == pytest.approx(200, abs=0.05 * len(shares))


@pytest.mark.parametrize(
    ("machine", "end"),
    [("ultrix", "on ultrix, with interrupts at 10 cycles."), ("intel", "on intel.")],
)
def test_the_share_of_one_machine_names_what_an_interrupt_costs(machine, end, trace, tmp_path):
    results = mmulab.replay(trace, machine, guesses=False)
    (tmp_path / "replay.json").write_text(json.dumps(results.to_dicts()))
    assert f"{end}</p>" in write_report(tmp_path).read_text()


def test_where_no_machine_takes_interrupts_nothing_is_said_of_them(page, trace, tmp_path):
    title = "What an interrupt costs matters"
    results = mmulab.replay(trace, ["base", "x86-64"], guesses=False)
    (tmp_path / "replay.json").write_text(json.dumps(results.to_dicts()))
    assert title in page and title not in write_report(tmp_path).read_text()


def test_programs_that_took_turns_have_a_table_and_no_pages(trace, tmp_path):
    """Their costs by page are left out, since one address is a page of each."""
    results = mmulab.replay([trace] * 2, "zen5", time_slice_instructions=100_000, limit=400_000)
    (tmp_path / "replay.json").write_text(json.dumps(results.to_dicts()))
    page = html.unescape(write_report(tmp_path).read_text())
    assert "The most expensive pages" not in page and "of these programs' run time" in page
    table = page.split("Programs that took turns")[1].split("</table>")[0]
    for program in results[0].data["programs"]:
        assert f"<td>{program['instructions']:,}</td>" in table
        assert f"<td>{1000 * program['walks'] / program['instructions']:.2f}</td>" in table
    assert page.count("<th>zen5</th>") >= 3  # of causes, misses and parts


def test_a_part_whose_translations_are_all_known_is_not_told_to_have_none(trace, tmp_path):
    results = mmulab.replay(trace, ["base", "ultrix"], skip=1000, warm_up=2000, limit=100)
    assert results["ultrix"].vmcpi == 0
    (tmp_path / "replay.json").write_text(json.dumps(results.to_dicts()))
    assert "Address translation takes nothing of the run" in write_report(tmp_path).read_text()


def test_every_cause_of_cycles_has_a_colour():
    assert set(plots.CAUSE_COLOURS) == {cause.name for cause in CAUSES}


def test_a_machine_with_what_the_study_did_not_have_makes_a_page(trace, tmp_path):
    guest = mmulab.Machine.load("x86-64").with_changes(
        {
            "organisation.host.pages": "4K",
            "organisation.walkers": 2,
            "organisation.walk_window_instructions": 100,
        }
    )
    results = mmulab.replay([trace] * 2, guest, time_slice_instructions=10_000, cores=2)
    (tmp_path / "replay.json").write_text(json.dumps(results.to_dicts()))
    page = write_report(tmp_path).read_text()
    assert "host-walk" in page and "overlapped-walk" in page


@pytest.mark.parametrize("content", ["", "{", "[]", "[1]", '[{"machine": "x"}]', "null", "3"])
def test_a_damaged_result_is_refused_by_name(content, tmp_path):
    (tmp_path / "replay.json").write_text(content)
    with pytest.raises(InputError, match=r"replay\.json: "):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_what_a_trace_is_told_to_be_is_refused_by_name(trace, tmp_path):
    (tmp_path / "replay.json").write_text(json.dumps(mmulab.replay(trace, "base").to_dicts()))
    (tmp_path / "trace.json").write_text("{}")
    with pytest.raises(InputError, match=r"trace\.json: is not a result of this version"):
        write_report(tmp_path)


def test_a_result_of_an_older_version_is_refused_by_name(trace, tmp_path):
    """It lacks what was not there yet: a cause of cycles, a value of a curve's provenance, a fact
    of a trace."""
    results = mmulab.replay(trace, "base", guesses=False).to_dicts()
    curves = mmulab.miss_curves(trace).to_dict()
    whole = {"replay.json": results, "miss-curves.json": curves}
    without_a_cause = json.loads(json.dumps(results))
    del without_a_cause[0]["causes"]["tlb-prefetch"]
    older = {
        "replay.json": without_a_cause,
        "miss-curves.json": {**curves, "provenance": {}},
        "trace.json": {"path": str(trace)},
    }
    for name, content in older.items():
        for file, value in {**whole, name: content}.items():
            (tmp_path / file).write_text(json.dumps(value))
        finished = command("report", tmp_path)
        assert finished.status == 2
        assert f"{name}: is not a result of this version (KeyError: " in finished.error_line
        assert not (tmp_path / "report.html").exists()


def test_a_foreign_parquet_file_is_refused_by_name(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no PAR1")
    finished = command("report", tmp_path)
    assert finished.status == 2
    assert "x.parquet" in finished.error_line


def test_a_replays_table_is_no_sweep(trace, tmp_path):
    results = mmulab.replay(trace, "base")
    (tmp_path / "replay.json").write_text(json.dumps(results.to_dicts()))
    pyarrow.parquet.write_table(results.table, tmp_path / "x.parquet")
    assert "configurations" not in write_report(tmp_path).read_text()


def test_a_plot_shows_where_a_large_program_fits(trace):
    raw = mmulab.miss_curves(trace).to_dict()
    misses = [40_000] * 19_999 + [20_000]
    of_data = {"stream": "data", "page_size": "4K", "references": 40_000, "misses": misses}
    curves = [one for one in raw["curves"] if (one["stream"], one["page_size"]) != ("data", "4K")]
    drawn = plots.miss_curves(
        mmulab.MissCurves({**raw, "instructions": 40_000, "curves": [*curves, of_data]})
    )
    assert "16,384 entries, 4K pages: 1000.0000 misses" in drawn
    assert "32,768 entries, 4K pages: 500.0000 misses" in drawn


def test_an_axis_names_the_parameters_that_have_its_values(trace, tmp_path):
    steps = {"itlb.entries": [32, 64], "dtlb.entries": [32, 64], "l1d.size_bytes": ["8K", "16K"]}
    mmulab.sweep(mmulab.Study([trace], ["ultrix"], [steps]), tmp_path / "tlb.parquet")
    page = write_report(tmp_path).read_text()
    titles = set(re.findall(r">([^<]*entries[^<]*)</text>", page))
    assert titles == {"itlb.entries and dtlb.entries"}


@pytest.mark.parametrize("highest", [0.117, 0.23, 1.17, 3.4, 1170.0])
def test_no_two_ticks_of_a_plot_have_one_number(highest):
    """Ticks up to 0.12 in steps of 0.02 were rounded to one digit, the last two alike."""
    rows = [
        {"trace": "t", "machine": "m", "l2.size_bytes": size << 10, "vmcpi": highest * part}
        for size, part in ((512, 1.0), (1024, 0.5), (2048, 0.1))
    ]
    drawn = plots.sweep(pa.Table.from_pylist(rows), "vmcpi", "l2.size_bytes", "l2.size_bytes")
    ticks = [float(text) for text in re.findall(r"<text[^>]*>([\d.,]+)</text>", drawn)]
    assert len(ticks) > 3 and len(set(ticks)) == len(ticks), ticks


def test_lines_of_all_machines_have_colours_of_their_own():
    """The fifteen that ship were drawn in ten."""
    rows = [
        {"trace": "t", "machine": machine, "l2.ways": ways, "vmcpi": 0.1 * ways}
        for machine in mmulab.machine_names("replay")
        for ways in (1, 2)
    ]
    drawn = plots.sweep(pa.Table.from_pylist(rows), "vmcpi", "l2.ways", "l2.ways")
    colours = re.findall(r'aria-roledescription="line mark"[^>]* stroke="(#\w+)"', drawn)
    assert len(colours) == len(set(colours)) == len(rows) // 2 > 10


def test_a_sweep_of_an_older_version_is_refused_by_name(tmp_path):
    columns = {"machine": ["a", "a"], "x": [1, 2], "instructions": [9, 9], "mcpi": [0.1, 0.2]}
    older = {**columns, "x": [["4K"], ["4K", "2M"]], "vmcpi": [0.1, 0.2]}
    for table in (older, columns):  # lists, and a column that was not there yet
        pyarrow.parquet.write_table(pa.table(table), tmp_path / "x.parquet")
        finished = command("report", tmp_path)
        assert finished.status == 2
        assert "x.parquet: is not a sweep of this version" in finished.error_line
        assert not (tmp_path / "report.html").exists()


def test_facets_of_a_papers_chart_fit_a_phone_unless_they_are_a_matrix():
    rows = [{"x": x, "y": x, "of": of} for x in (1, 2) for of in "abcd"]
    title = "a title of facets that is so long that a phone shows it in two lines"
    points = alt.Chart(alt.InlineData(rows), width=200).mark_line().encode(x="x:Q", y="y:Q")
    column = alt.Column("of:N", title=title)

    def width(svg):
        return float(re.search(r'<svg[^>]* width="([\d.]+)"', svg)[1])

    for chart in (points.encode(column=column), points.facet(column=column)):
        for either in (chart, alt.vconcat(chart, points)):
            wide, narrow = plots.svg_and_narrow(either)
            assert width(wide) > 800 and width(narrow) < 346
    long = {letter: f"a label of 24 characters {letter}" for letter in "abcd"}
    labelled = points.transform_calculate(label=f"{json.dumps(long)}[datum.of]").encode(
        color="label:N"
    )
    assert width(plots.svg_and_narrow(labelled)[1]) < 346
    assert plots.svg_and_narrow(points.encode(row="of:N", column=column))[1] is None
    assert plots.svg_and_narrow(points.facet(row="of:N", column=column))[1] is None


def test_every_mark_that_describes_itself_is_found_by_the_pointer(tmp_path):
    """Also the points of lines, which have a name of their own."""
    base = alt.Chart(alt.InlineData([{"x": 1, "y": 2}, {"x": 2, "y": 3}])).encode(x="x:Q", y="y:Q")
    charts = [base.mark_bar(), base.mark_circle(), base.mark_line(point=True)]
    figures = [papers.Figure(f"figure-{n}", "", "", chart) for n, chart in enumerate(charts)]
    reproduction = papers.Reproduction(paper="a", title="A study", claims=[], figures=figures)
    page = write_reproduction(tmp_path, reproduction).read_text()
    drawn = set(re.findall(r'role="graphics-symbol" aria-roledescription="(\w+)"', page))
    found = re.search(r"const MARKS = \[(.*?)\]", page)
    assert drawn >= {"bar", "circle", "point"} and found is not None
    assert drawn - {"axis"} <= set(re.findall(r"'(\w+)'", found[1])), drawn


def test_a_reproduction_makes_a_page_with_claims_figures_and_numbers(tmp_path):
    claims = papers.published_claims("vm_study_1998")
    chart = alt.Chart(alt.InlineData([{"x": 1, "y": 2}])).mark_bar().encode(x="x:Q", y="y:Q")
    reproduction = papers.Reproduction(
        paper="vm-study-1998",
        title="A study",
        claims=[
            claims["vm98-01"].judge(True, "0.1 < 0.2 <b>"),
            claims["vm98-02"].judge(False, "0.3 against 0.1", "another program"),
            claims["vm98-03"].not_evaluated("needs the full run"),
        ],
        figures=[papers.Figure("figure6", "Figure 6", "it falls", chart)],
        tables={"sweep": pa.table({"a": [1]})},
        notes="What was run.",
        provenance=inputs_provenance(["ultrix"], [__file__]),
    )
    text = write_reproduction(tmp_path, reproduction).read_text()
    balance = Balance()
    balance.feed(text)
    assert balance.open == []
    assert "0.1 &lt; 0.2 &lt;b&gt;" in text
    for expected in ("1 claims hold", "1 differ", "another program", "it falls", "<svg"):
        assert expected in text
    source = json.loads((tmp_path / "provenance.json").read_text())
    assert source["machines"][0]["sha256"] == mmulab.Machine.load("ultrix").sha256
    assert source["inputs"][0]["name"] == Path(__file__).name
    table = pa.parquet.read_table(tmp_path / "sweep.parquet")
    assert json.loads(table.schema.metadata[b"provenance"]) == source
