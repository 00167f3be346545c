"""The claims on TLB migration: what the guest measures, and that each rule can fail."""

import copy

import pytest

from mmulab import papers
from mmulab.papers import tlb_migration_2018 as migration

EVALUATED = ["mig18-01", "mig18-02", "mig18-03", "mig18-04"]


def published():
    """The thesis's own figures, as the guest would print them."""
    columns = {
        "tlb_read": ("a1_tlb_read", ["cycles"]),
        "preload": ("a2_pld", ["cycles", "cache_accesses", "cache_misses"]),
        **{
            name: (table, list(migration.COLUMNS.values()))
            for name, table in migration.BENCHMARKS.items()
        },
    }
    return {
        name: {
            int(next(iter(row.values()))): [int(row[column]) for column in wanted]
            for row in papers.published_table(migration.PAPER, table)
        }
        for name, (table, wanted) in columns.items()
    }


def judged(points):
    return {claim.id: claim for claim in migration.judge(points, points)}


def test_the_thesis_holds_by_its_own_figures():
    claims = judged(published())
    assert list(claims) == list(papers.published_claims(migration.PAPER))
    for identifier, claim in claims.items():
        wanted = "holds" if identifier in EVALUATED else "not evaluated"
        assert claim.verdict == wanted, (identifier, claim.ours)


# Each changes one figure of the thesis: name, pages, column, and what it becomes.
WRONG = {
    "mig18-01": [("tlb_read", 1, 0, 1.3), ("tlb_read", 64, 0, 1.3), ("tlb_read", 16, 0, 0.7)],
    "mig18-02": [
        ("preload", 64, 0, 1.3),
        ("preload", 2, 0, 0.7),
        ("preload", 8, 1, 0),
        ("preload", 64, 1, 3.8),
        ("preload", 16, 2, 0.8),
    ],
    "mig18-03": [
        ("direct_4k", 64, 0, 3.5),
        ("direct_68k", 64, 0, 0.7),
        ("direct_68k", 64, 1, 1.3),
        ("direct_4k", 64, 2, 0.7),
        ("direct_68k", 64, 3, 0.7),
        ("direct_68k", 1, 0, 20),
    ],
    "mig18-04": [
        ("indirect_68k", 64, 2, 0.7),
        ("indirect_68k", 64, 2, 1.5),
        ("direct_68k", 64, 2, 0.7),
        ("indirect_4k", 64, 3, 1.3),
        ("indirect_68k", 64, 0, 2),
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


@pytest.fixture(scope="module")
def measured():
    return migration.on_the_core(papers.Run())


def test_what_the_guest_measures_follows_from_the_machine(measured):
    points, faster = measured
    machine = papers.Run().machine(migration.MACHINE)
    fill = machine.get("memory.line_fill_cycles") + machine.get("level_2.latency_cycles")
    walk_hit = machine.get("coherence.walk_hit_cycles")
    cold, migrated = (
        migration.slope(migration.figure_of(points, "direct_68k", figure))
        for figure in ("cold", "migrated")
    )
    # Far apart each page takes its descriptor's line and its own; after a migration only its own.
    assert fill < migrated < fill + 20
    assert 2 * fill < cold < 2 * fill + 2 * walk_hit + 20
    # Side by side sixteen pages share a line of descriptors.
    near = migration.slope(migration.figure_of(points, "direct_4k", "cold"))
    assert fill + fill / 16 < near < fill + fill / 16 + 2 * walk_hit + 20
    # Half of the memory's latency is half of a fill.
    half = migration.slope(migration.figure_of(faster, "direct_68k", "migrated"))
    assert migrated - half == pytest.approx(machine.get("memory.line_fill_cycles") / 2, abs=1)


def test_results_depend_on_nothing_but_the_inputs(measured):
    assert migration.on_the_core(papers.Run()) == measured
