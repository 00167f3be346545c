"""What `make bench` prints beside its measurements: the targets, and how much is left."""

from conftest import ROOT, script

bench = script("benches/run.py")


def newest_table() -> list[list[str]]:
    """The cells of the newest table of everything in benches/README.md."""
    text = (ROOT / "benches" / "README.md").read_text()
    table = text.split("| what | result | target | peer in the same run |\n", 1)[1]
    rows = table.split("\n\n", 1)[0].splitlines()[1:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_targets_are_those_of_the_newest_figures(capsys):
    report = bench.Report()
    for what, result, _, peer in newest_table():
        report.row(what, result, peer)
    printed = [row.strip("|").split("|") for row in capsys.readouterr().out.splitlines()[2:]]
    assert [[cell.strip() for cell in row] for row in printed] == newest_table()
    begun = {words for words in bench.TARGETS for row in newest_table() if row[0].startswith(words)}
    assert begun == set(bench.TARGETS)


def test_runs_in_turn_tell_how_much_is_done():
    told = []
    runs = bench.in_turn(2, {"one": ["true"], "other": ["echo", "hello"]}, told.append)
    assert told == [0.25, 0.5, 0.75, 1.0]
    assert [run.output for run in runs["other"]] == ["hello\n"] * 2
