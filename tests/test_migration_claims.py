"""The claims on TLB migration: what the guest measures, and that each rule can fail."""

import copy

import pytest

import mmulab
from mmulab import guests, papers
from mmulab.machine import Machine
from mmulab.papers import tlb_migration_2018 as migration

EVALUATED = [f"mig18-{number:02}" for number in range(1, 8)]


def published():
    """The thesis's own figures, as the guest would print them."""
    columns = {
        "tlb_read": ("a1_tlb_read", ["cycles"]),
        "preload": ("a2_pld", ["cycles", "cache_accesses", "cache_misses"]),
        **{
            name: (table, list(migration.COLUMNS.values()))
            for name, table in migration.TABLES.items()
        },
    }
    restored = {f"restored_{name}": {64: [size, 0]} for name, size in migration.SIZES.items()}
    return (
        restored
        | {"preload_unmapped": {64: [3363, 17, 17]}}
        | {
            name: {
                int(next(iter(row.values()))): [int(row[column]) for column in wanted]
                for row in papers.published_table(migration.PAPER, table)
            }
            for name, (table, wanted) in columns.items()
        }
    )


def judged(points):
    return {claim.id: claim for claim in migration.judge(points, points)}


def test_the_thesis_holds_by_its_own_figures():
    claims = judged(published())
    assert list(claims) == list(papers.published_claims(migration.PAPER))
    for identifier, claim in claims.items():
        wanted = "holds" if identifier in EVALUATED else "not evaluated"
        assert claim.verdict == wanted, (identifier, claim.ours)


def slopes_and_saving(name):
    """What a further page costs, and saving, too low and too high, by the figure at 64 pages."""
    return [(name, 64, column, by) for column in range(4) for by in (0.7, 1.35)]


def gains(name):
    """A cold access that takes so long that the migration gains, at each number of pages."""
    return [(name, pages, 0, 50) for pages in published()[name]]


# Each changes one figure of the thesis: name, pages, column, and what it becomes.
WRONG = {
    "mig18-01": [
        *(("tlb_read", entries, 0, by) for entries in published()["tlb_read"] for by in (0.7, 1.3)),
        # A further entry alone.
        ("tlb_read", 64, 0, 0.79),
        ("tlb_read", 64, 0, 1.24),
    ],
    "mig18-02": [
        ("preload", 64, 0, 1.3),
        ("preload", 2, 0, 0.7),
        ("preload", 8, 1, 0),
        ("preload", 64, 1, 3.8),
        ("preload", 16, 2, 0.8),
        *(("preload", pages, 0, by) for pages in published()["preload"] for by in (0.7, 1.3)),
        # Three more or fewer, where there are as many.
        *(
            ("preload", pages, column, (values[column] + more) / values[column])
            for pages, values in published()["preload"].items()
            for column in (1, 2)
            for more in (-3, 3)
            if values[column] + more >= 0
        ),
    ],
    "mig18-03": [
        ("direct_4k", 64, 0, 3.5),
        ("direct_68k", 64, 0, 0.7),
        ("direct_68k", 64, 1, 1.3),
        ("direct_4k", 64, 2, 0.7),
        ("direct_68k", 64, 3, 0.7),
        ("direct_68k", 1, 0, 20),
        *slopes_and_saving("direct_4k"),
        *slopes_and_saving("direct_68k"),
        *gains("direct_4k"),
        *gains("direct_68k"),
    ],
    "mig18-04": [
        ("indirect_68k", 64, 2, 0.7),
        ("indirect_68k", 64, 2, 1.5),
        ("direct_68k", 64, 2, 0.7),
        ("indirect_4k", 64, 3, 1.3),
        ("indirect_68k", 64, 0, 2),
        # The ratio alone.
        ("direct_68k", 64, 2, 1.5),
        *slopes_and_saving("indirect_4k"),
        *slopes_and_saving("indirect_68k"),
        *gains("indirect_4k"),
        *gains("indirect_68k"),
    ],
    "mig18-05": [
        (f"restored_{name}", 64, 0, by) for name in migration.SIZES for by in (0.5, 8 / 7)
    ],
    "mig18-06": [
        ("v2", 32, 2, 1.5),
        ("v4", 32, 2, 1.2),
        ("v3", 64, 2, 0.9),
        ("v3", 32, 3, 2),
        ("v1", 64, 3, 1.3),
        ("v4", 64, 3, 0.7),
        ("v1", 64, 2, 1.3),
        # The order of saving alone, within a quarter of the figures.
        ("v3", 64, 3, 1.2),
        ("v2", 64, 3, 0.76),
        *((name, 32, 3, 0.5) for name in ("v1", "v2")),
        *((name, 32, 3, 2) for name in ("v3", "v4")),
        *(
            (name, 64, column, by)
            for name in migration.INTERFACES
            for column in (2, 3)
            for by in (0.7, 1.3)
        ),
    ],
    "mig18-07": [
        ("v4", 21, 0, 0.9),
        ("v4", 8, 0, 1.6),
        ("v4", 64, 1, 1.1),
        ("v4", 64, 0, 1.1),
    ],
}


@pytest.mark.parametrize(
    ("identifier", "name", "pages", "column", "factor"),
    [(identifier, *change) for identifier, changes in WRONG.items() for change in changes],
)
def test_a_claim_differs_where_a_figure_is_wrong(identifier, name, pages, column, factor):
    points = copy.deepcopy(published())
    points[name][pages][column] = round(points[name][pages][column] * factor)
    claim = judged(points)[identifier]
    assert claim.verdict == "differs" and claim.why, claim.ours


def test_an_entry_that_is_not_what_it_was_is_seen():
    points = published()
    points["restored_v3"][64][1] = 1
    assert judged(points)["mig18-05"].verdict == "differs"


@pytest.fixture(scope="module")
def measured():
    return migration.on_the_core(papers.Run())


def test_what_the_guest_measures_follows_from_the_machine(measured):
    points = measured
    machine = papers.Run().machine(migration.MACHINE)
    fill = machine.get("memory.line_fill_cycles") + machine.get("level_2.latency_cycles")
    walk = machine.get("coherence.walk_hit_cycles") + machine.get("micro_tlb.refill_cycles")
    cold, migrated = (
        migration.slope(migration.figure_of(points, "direct_68k", figure))
        for figure in ("cold", "migrated")
    )
    # After a migration the lines of two pages come at a time. Far apart each page waits for its
    # descriptor's line, beside which its own line comes.
    assert fill / 2 <= migrated < fill / 2 + 5
    assert fill + walk < cold < fill + walk + 10
    # Side by side sixteen pages share a line of descriptors.
    near = migration.slope(migration.figure_of(points, "direct_4k", "cold"))
    assert fill / 2 <= near < fill / 2 + fill / 16


def test_what_differs_is_moved_by_what_the_documents_say():
    rows = {row["changed"]: row for row in migration.differences(papers.Run())}
    published, own = rows.pop("published"), rows["as it is"]
    # Restoring directly costs more beyond 32 pages in the thesis, and here by no value.
    assert published["restore_32_to_64"] > 1.5 * published["restore_16_to_32"]
    assert all(row["restore_32_to_64"] < 1.1 * row["restore_16_to_32"] for row in rows.values())
    # Beyond 17 pages a published PLD takes what a walk takes without a line fill, or of a page that
    # is not mapped.
    assert not papers.about(own["preload_17_to_64"], published["preload_17_to_64"])
    assert papers.about(own["preload_17_to_64_no_fills"], published["preload_17_to_64"])
    assert papers.about(own["preload_17_to_64_unmapped"], published["preload_17_to_64"])
    # Saving takes what the TLB has of others; values that bring it near make reading the TLB far.
    assert own["save_1"] < published["save_1"] < own["save_0_of_256"]
    near = [row for row in rows.values() if row["save_64"] > 5500]
    assert near and not any(
        papers.about(row["read_16_to_64"], published["read_16_to_64"]) for row in near
    )
    # All lines of the 68 KB benchmark are in few sets of the first level; it makes no difference.
    one_way = rows["a first level with one way"]
    assert {**one_way, "changed": "", "set": ""} == {**own, "changed": "", "set": ""}


def test_results_depend_on_nothing_but_the_inputs(measured):
    assert migration.on_the_core(papers.Run()) == measured


@pytest.mark.parametrize("name", [migration.GEM5, migration.MACHINE])
@pytest.mark.parametrize("ways", ["1", "4", "8"])
def test_another_core_restores_what_no_table_maps_any_more(name, ways):
    """Also where the caches have another shape than the documents': the guest cleans them by the
    shape that the core tells."""
    changed = Machine.load(name).with_changes({"dcache.ways": ways})
    points = migration.with_interfaces(papers.Run(changed={name: changed}), name)
    claim = migration.judge_encodings(points, papers.published_claims(migration.PAPER)["mig18-05"])
    assert claim.verdict == "holds", claim.ours
    # A stream looks at every set of the TLB, one a cycle.
    machine = papers.Run().machine(name)
    sets = 128 if name == migration.MACHINE else 1
    assert migration.figure_of(points, "v3", "save")[1] > 1e9 / machine.get("core.clock_hz") * sets


@pytest.mark.parametrize("misses", ["0", "2"])
def test_filtering_turns_a_loss_into_a_gain_at_16_pages(misses):
    """Also where each miss blocks. By net gain: cold less migrated, restore and save."""
    machine = Machine.load(migration.MACHINE)
    changed = machine.with_changes({"buffers.outstanding_misses": misses})
    points = migration.with_interfaces(
        papers.Run(changed={migration.MACHINE: changed}), migration.MACHINE
    )

    def gain(version, pages):
        cold, *spent = (
            migration.figure_of(points, version, figure)[pages]
            for figure in ("cold", "migrated", "restore", "save")
        )
        return cold - sum(spent)

    assert gain("v1", 16) < 0 < gain("v4", 16)
    assert gain("v4", 1) < 0


def test_the_checker_reports_restored_entries_that_outlived_their_mappings():
    machine = papers.Run().machine(migration.MACHINE)
    changes = {"cores": "2", "core.coprocessor": migration.COPROCESSOR}
    image = guests.image("migration-interfaces-256-test")
    run = mmulab.boot(image, machine.with_changes(changes), check=True)
    assert run.exit == 0, run.end
    # Each page by each version, on the core that restored it.
    (report,) = run.reports
    assert (report["kind"], report["core"], report["times"]) == ("stale-tlb-entry", 1, 5 * 48)


@pytest.mark.parametrize(("name", "entries"), [(migration.GEM5, 64), (migration.MACHINE, 256)])
def test_a_stream_of_used_entries_leaves_out_what_was_restored_and_not_read(name, entries):
    changes = {"cores": "2", "core.coprocessor": migration.COPROCESSOR}
    machine = papers.Run().machine(name).with_changes(changes)
    run = mmulab.boot(guests.image(f"migration-interfaces-{entries}-test"), machine)
    lines = run.console.splitlines()
    # 32 restored; none of these was read; 12 were.
    assert "used_v3 12 32 0 12" in lines and "used_v4 12 32 0 12" in lines, run.console
    assert "used_v5 12 32 12" in lines, run.console
    assert "ages_v3 12 32 32 12 5" in lines and "ages_v5 12 32 32 12 5" in lines, run.console


@pytest.mark.parametrize("name", [migration.GEM5, migration.MACHINE])
def test_entries_that_are_taken_over_while_they_are_invalidated_are_never_stale(name):
    changes = {"cores": "2", "core.coprocessor": migration.COPROCESSOR}
    machine = papers.Run().machine(name).with_changes(changes)
    run = mmulab.boot(guests.image("migration-transfers"), machine, check=True)
    assert run.reports == []
    _, rounds, wrong, entered = run.console.split()
    # Of 48 in each round some were invalidated before.
    assert wrong == "0" and 1000 < int(entered) < 48 * int(rounds), run.console


@pytest.mark.parametrize("name", [migration.GEM5, migration.MACHINE])
def test_version_5_takes_no_time_of_the_core_and_brings_every_entry(name):
    machine = papers.Run().machine(name)
    points = migration.with_interfaces(papers.Run(), name)
    assert next(iter(points["taken_over_v5"].items())) == (48, [48, 0])
    cycle = 1e9 / machine.get("core.clock_hz")
    for benchmark in ("v5", "v5_4k"):
        assert set(migration.figure_of(points, benchmark, "save").values()) == {0}
        assert max(migration.figure_of(points, benchmark, "restore").values()) < 10 * cycle
        gains = migration.net(points, benchmark)
        assert gains[1] > -10 * cycle and all(gains[pages] > 0 for pages in (16, 32, 64)), gains
    # Four answers of eight entries and one of none; each takes its way and a cycle for each entry
    # and set.
    (one, _), (many, entries) = (points["transfer_v5"][pages] for pages in (1, 32))
    assert entries == 32
    expected = 4 * machine.get("coherence.transfer_cycles") + 31
    assert abs(many - one - expected) < 10


def test_user_mode_has_no_access_and_a_plain_core_no_interface():
    machine = papers.Run().machine(migration.MACHINE).with_changes({"cores": "2"})
    image = guests.image("migration-interfaces-256-test")
    run = mmulab.boot(image, machine.with_changes({"core.coprocessor": migration.COPROCESSOR}))
    assert run.console.splitlines()[-1].startswith("exception 1 "), run.console
    run = mmulab.boot(image, machine)
    # A data abort: no table maps the page, and nothing was restored.
    assert run.console.startswith("exception 4 "), run.console
    assert any("c15" in note for note in run.data["notes"])
