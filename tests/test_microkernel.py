"""The microkernel: the same on QEMU and on ours, isolated, silent under the checker, and fast."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from conftest import ROOT, script

import mmulab
from mmulab import guests
from mmulab.papers import microkernel
from mmulab.papers.microkernel import ARCHITECTURES, SCHEMES, boot

fuzzing = script("guests/microkernel/fuzz.py")
GUESTS = ROOT / "build" / "guests"
SAME_EVERYWHERE = [
    "run=isolation",
    "run=stale",
    "run=random operations=600 spaces=20",
    "run=storm groups=1",
]
NEEDED = {
    "PAGE_UNCACHED_DATA": "fass",
    "FASS_RECYCLE_DATA": "fass",
    "FASS_RECYCLE_INSTRUCTIONS": "fass",
    "FASS_EXHAUSTED_TRANSLATIONS": "fass",
    "FCSE_GROW_DATA": "fcse_best_effort",
    "FCSE_GROW_INSTRUCTIONS": "fcse_best_effort",
    "FCSE_GROW_TRANSLATIONS": "fcse_best_effort",
}
"""Operations that random ones seldom show to be needed, and `run=stale` always."""


@pytest.fixture(scope="module", autouse=True)
def images() -> None:
    """Builds both ELFs."""
    guests.build("microkernel")


def symbols(file):
    """Where each symbol of an object or program is, by its name."""
    tell = ["arm-none-eabi-nm", "--defined-only", file]
    told = subprocess.run(tell, capture_output=True, text=True, check=True).stdout
    return {name: int(at, 16) for at, _, name in map(str.split, told.splitlines())}


def test_programs_that_are_measured_keep_their_addresses_when_others_grow(tmp_path):
    shutil.copytree(ROOT / "guests", tmp_path / "guests")
    grows = tmp_path / "guests" / "bench" / "attacks_thumb.c"
    built = []
    for growth in (
        "",
        """
        u32 grown_data[300] = { 1 };
        u32 grown_bss[300];
        u32 grown(u32 x)
        {
            print("a text");
            return x / grown_data[x] + grown_bss[x] % 7;
        }
        """,
    ):
        grows.write_text(grows.read_text() + growth)
        out = tmp_path / f"out{len(built)}"
        make = ["make", "-s", "-C", tmp_path / "guests" / "microkernel", f"OUT={out}"]
        subprocess.run([*make, out / "user-armv4.elf"], check=True)
        others = {*symbols(out / "user-armv4-last.o"), "text_end", "data_start", "data_end"}
        built.append({k: v for k, v in symbols(out / "user-armv4.elf").items() if k not in others})
    assert len(built[0]) > 100 and "__udivsi3" in built[0]
    assert built[0] == built[1]


@pytest.mark.parametrize(
    "options, said",
    [
        ("scheme=fast run=recycled", "give scheme=flush|"),
        ("scheme=fass run=recycle", "give run=pingpong|"),
        ("scheme=fass run=pingpong clients=x", "clients= takes a number"),
        ("scheme=fass run=pingpong client=2", "there is no option client=2; this program takes:"),
        ("scheme=fass run=ring array=sam", "there is no option array=sam; this program takes:"),
        ("scheme=fass run=recycled mutant=X", "no such mutant="),
        ("scheme=fass run=recycled tries=1 " + 240 * "x", "only 249 characters are read"),
        ("scheme=fass run=random operations=4294967297", "operations= takes a number below 26"),
    ],
)
def test_an_option_that_is_none_is_refused(options, said):
    result = mmulab.boot(GUESTS / "microkernel-armv4.elf", "sa1100", append=options)
    assert result.exit == 2 and said in result.console


def test_a_ring_has_at_least_two_processes():
    for given in (0, 1):
        guest = boot("sa1100", "fass", "ring", processes=given, rounds=1)
        assert "ring: 2 processes" in guest.result.console


def test_each_option_that_a_program_reads_is_allowed_and_no_other():
    bench = ROOT / "guests" / "bench"
    allowed = re.findall(r'\{ "\w+", (\w+), "(.*?)" \}', (bench / "main.c").read_text())
    for file in bench.glob("*.c"):
        source = file.read_text()
        own = [words for name, words in allowed if re.search(rf"^u32 {name}\(void\)", source, re.M)]
        if own and not file.stem.startswith("calls"):  # asks for the scheme, which all may be told
            read = set(re.findall(r'\boption(?:_number)?\("(\w+)"', source))
            assert read == {word.split("=")[0] for words in own for word in words.split()}, file
        # What a program reads itself, not by a helper of the file, is allowed to it and not to its
        # neighbour.
        for name, body in re.findall(r"^u32 (\w+)\(void\)\n\{(.*?)^\}", source, re.M | re.S):
            words = dict(allowed).get(name, "").split()
            read = set(re.findall(r'\boption(?:_number)?\("(\w+)"', body)) - {"scheme"}
            assert read <= {word.split("=")[0] for word in words}, (file, name)


def test_a_space_may_be_refused_for_the_moment(tmp_path):
    """By a scheme that takes the next one: its record's directory was never filled."""
    for folder in ("microkernel", "bench"):
        shutil.copytree(ROOT / "guests" / folder, tmp_path / folder)
    path = tmp_path / "microkernel/kernel/space/flush.c"
    takes_all = "create(struct space *space)\n{\n\t(void)space;\n\treturn true;"
    takes_all_but_one = takes_all.replace("return true", "static u32 calls;\n\treturn ++calls != 3")
    source = path.read_text()
    assert source.count(takes_all) == 1
    path.write_text(source.replace(takes_all, takes_all_but_one))
    image = tmp_path / "microkernel-armv4.elf"
    make = ["make", "-s", "-C", path.parents[2], f"OUT={tmp_path}", image]
    subprocess.run(make, check=True, capture_output=True)
    options = "scheme=flush run=random operations=200 spaces=8"
    result = mmulab.boot(image, "sa1100", append=options, check=True)
    assert "random: 200 operations, 0 errors" in result.console, result.console
    assert result.exit == 0 and result.reports == []


def test_an_image_for_a_later_architecture_is_noted():
    def notes(architecture, machine):
        image = GUESTS / f"microkernel-{architecture}.elf"
        return mmulab.boot(image, machine, max_instructions=1000).data["notes"]

    assert notes("armv5te", "sa1100") == [
        "the image was compiled for ARMv5TEJ; the core of sa1100 has ARMv4"
    ]
    assert notes("armv4", "sa1100") == notes("armv5te", "ixp425") == []


def on_qemu(cpu: str, architecture: str, options: str) -> list[str]:
    """What the guest prints on QEMU, whose time follows instructions, without the measurements."""
    image = GUESTS / f"microkernel-{architecture}.elf"
    command = f"qemu-system-arm -M versatilepb -cpu {cpu} -nographic -monitor none -semihosting"
    command += " -icount shift=3,sleep=off -audiodev none,id=a"
    finished = subprocess.run(
        [*command.split(), "-kernel", image, "-append", options],
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout[-500:]
    return untimed(finished.stdout.decode())


def untimed(text: str) -> list[str]:
    """The lines that are the same on every machine."""
    return [line for line in text.splitlines() if line and not line.startswith("= ")]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_same_elf_prints_the_same_on_qemu_and_the_checker_is_silent(scheme):
    for program in SAME_EVERYWHERE:
        options = f"scheme={scheme} {program}"
        result = mmulab.boot(GUESTS / "microkernel-armv4.elf", "sa1100", append=options, check=True)
        assert result.exit == 0, result.console[-500:]
        assert result.reports == []
        assert untimed(result.console) == on_qemu("sa1110", "armv4", options)


@pytest.mark.parametrize("machine", ["at91rm9200", "ixp425", "arm926ej-s"])
def test_random_operations_hold_on_the_other_cores(machine):
    for scheme in SCHEMES:
        guest = boot(machine, scheme, "random", operations=300, spaces=16, check=True)
        assert guest.result.reports == []


def test_the_armv5_elf_runs_on_qemu_too():
    # A parent that writes while its children, relocated elsewhere, have copies.
    assert on_qemu("arm926", "armv5te", "scheme=fass run=storm groups=2 loops=1") == [
        "storm: 80 processes, 800 messages, 0 errors"
    ]
    for scheme in SCHEMES:
        assert on_qemu("arm926", "armv5te", f"scheme={scheme} run=random operations=300")[-1] == (
            "random: 300 operations, 0 errors"
        )


def test_switching_without_flushes_is_faster_like_for_like():
    """Both kernels by their assembly path, then both by their path in C."""

    def cycles(scheme: str, clients: int, **options: str) -> float:
        return boot("sa1100", scheme, "pingpong", clients=clients, rounds=1000, **options).cycles

    assert cycles("fass", 1) <= 200
    assert cycles("fass", 14) <= 200
    assert cycles("flush", 1) / cycles("fass", 1) >= 25
    assert cycles("flush", 1, path="general") / cycles("fass", 1, path="general") >= 15
    assert cycles("flush", 40) / cycles("fass", 40) >= 3


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_call_returns_and_does_what_it_should(scheme):
    for path in ("fast", "general"):
        options = f"scheme={scheme} run=calls path={path}"
        image = GUESTS / "microkernel-checked-armv4.elf"
        result = mmulab.boot(image, "sa1100", append=options, check=True)
        assert "calls: 0 errors" in result.console, result.console
        assert result.exit == 0
        assert result.reports == []


ATTACKS = [  # all but those of attacks_memory.c, which the next test has those of attacks_memory.c
    "orphan",
    "priority",
    "latency",
    "destruction",
    "registers",
    "thumb",
    "thumb_calls",
    "shared_secret",
    "many_mappings",
    "unshared_slot",
    "stale_section",
    "shared_translation",
    "gone_sharer",
    "many_sections",
    "interrupted_end",
    "move_latency",
    "sleep_trap",
    "slices",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_does_not_get_through(attack):
    """Each got through once; docs/microkernel.md says how. Thumb state needs another core."""
    for scheme in SCHEMES:
        options = f"scheme={scheme} run=attack attack={attack}"
        machine, architecture = (
            ("arm926ej-s", "armv5te") if attack.startswith("thumb") else ("sa1100", "armv4")
        )
        if attack in ("shared_secret", "interrupted_end"):  # its lines stay only in a larger cache
            machine, architecture = "ixp425", "armv5te"
        image = GUESTS / f"microkernel-{architecture}.elf"
        result = mmulab.boot(
            image, machine, append=options, check=True, max_instructions=60_000_000
        )
        assert result.exit == 0, result.console[-500:]
        assert f"attack {attack}: got through 0 times" in result.console
        assert result.reports == []


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_attacks_on_pages_do_not_get_through_on_any_core(machine):
    for attack in ("regrown", "many_tables", "interrupted_share"):
        for scheme in SCHEMES:
            assert boot(machine, scheme, "attack", attack=attack, check=True).result.reports == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_library_at_one_address_is_the_same_for_all_and_nobody_changes_it_for_others(scheme):
    """Among the attempts: to write it, to have a page of one's own there, to end its first
    holder."""
    for processes in (5, 18):  # fewer and more than there are domains
        options = f"scheme={scheme} run=library processes={processes} pages=12 laps=5"
        image = GUESTS / "microkernel-checked-armv4.elf"
        result = mmulab.boot(image, "sa1100", append=options, check=True)
        assert result.reports == []
        if scheme == "fcse_guaranteed":
            assert "library: refused" in result.console
        else:
            assert f"library: {processes} processes, 12 pages, 0 errors" in result.console
            assert result.exit == 0


def test_a_shared_library_has_one_domain_and_one_translation_a_page():
    """As long as the processes have domains: no collision, no flush and no walk for its pages."""
    shared = boot("sa1100", "fass_shared", "library", processes=12, pages=16, laps=100)
    apart = boot("sa1100", "fass", "library", processes=12, pages=16, laps=100)
    assert apart.per("itlb") >= 16
    assert apart.per("collisions") >= 1
    assert shared.per("itlb") <= 0.01
    assert shared.per("collisions") <= 0.01
    assert apart.cycles / shared.cycles >= 10


@pytest.mark.parametrize("scheme", SCHEMES)
def test_random_calls_break_no_invariant(scheme):
    """A bounded portion of guests/microkernel/fuzz.py; the second core makes calls in Thumb
    state."""
    for machine in ("sa1100", "arm926ej-s"):
        done = fuzzing.fuzz(machine, scheme, calls=2500, seed=7)
        assert not done.wrong
        assert done.calls >= 2500


def test_a_long_run_shows_how_much_is_left(monkeypatch):
    """The total of its bar is what the run comes to, where each repetition takes the same."""
    told = []

    @contextmanager
    def progress(label):
        yield lambda done, total: told.append((label, done, total))

    def run(count, report):
        instructions = 8_000_000 + 3_000 * count
        report(instructions, None)
        return SimpleNamespace(instructions=instructions, count=count)

    monkeypatch.setattr(microkernel, "progress", progress)
    monkeypatch.setattr(microkernel, "shows_progress", lambda: True)
    assert microkernel.run_with_time_left(100_000, run).count == 100_000
    assert told[-1] == ("Running", 308_000_000, 308_000_000)
    assert sum(done for _, done, _ in told[:-1]) < 308_000_000 / 10
    told.clear()
    assert microkernel.run_with_time_left(7999, run).count == 7999  # too short for an estimate
    assert told == [("Running", 31_997_000, None)]
    told.clear()
    monkeypatch.setattr(microkernel, "shows_progress", lambda: False)
    microkernel.run_with_time_left(100_000, run)
    assert told == [("Running", 308_000_000, None)]  # nothing is run first that nobody sees


def test_a_clean_domain_must_be_flushed_from_the_tlb_before_it_is_recycled():
    """The experiment of docs/microkernel.md: without the flush, the new owner reads a secret."""
    assert boot("sa1100", "fass", "recycled", check=True).result.reports == []
    options = "scheme=fass run=recycled mutant=FASS_CLEAN_RECYCLE_TRANSLATIONS"
    result = mmulab.boot(GUESTS / "microkernel-armv4.elf", "sa1100", append=options, check=True)
    assert result.exit == 1
    assert "the TLB holds" in result.reports[0]["text"]


@pytest.mark.parametrize("name", NEEDED)
def test_an_operation_is_needed_in_a_situation_made_for_it(name):
    options = f"scheme={NEEDED[name]} run=stale mutant={name}"
    image = GUESTS / "microkernel-armv5te.elf"
    result = mmulab.boot(image, "ixp425", append=options, check=True, max_instructions=60_000_000)
    assert result.reports
    assert result.exit != 0


def test_every_maintenance_operation_has_its_row_in_the_table_of_mutants():
    table = (ROOT / "docs" / "microkernel-mutants.md").read_text()
    listed = (ROOT / "guests/microkernel/kernel/maintenance.h").read_text()
    assert re.findall(r"^\| `([A-Z_]+)`", table, re.M) == re.findall(
        r"^\tX\(([A-Z_]+),", listed, re.M
    )
    assert "no reason known" not in table


def test_the_same_run_twice_is_the_same():
    runs = [boot("sa1100", "fass", "random", operations=300).result for _ in range(2)]
    assert runs[0].console == runs[1].console
    assert runs[0].cycles == runs[1].cycles


def test_where_an_image_lies_changes_nothing(tmp_path):
    image = GUESTS / "microkernel-armv4.elf"
    other = tmp_path / ("a folder" * 20) / "another name"
    other.parent.mkdir()
    shutil.copy(image, other)
    options = "scheme=fass run=pingpong clients=2 rounds=20"
    runs = [mmulab.boot(path, "sa1100", append=options) for path in (image, other)]
    names = [run.data["provenance"]["image"].pop("name") for run in runs]
    assert names == [image.name, other.name]
    assert runs[0].exit == 0 and runs[0].console == runs[1].console
    assert runs[0].data == runs[1].data


def test_a_missing_scheme_is_told():
    result = mmulab.boot(GUESTS / "microkernel-armv4.elf", "sa1100", append="run=ring")
    assert result.exit == 2
    assert "give scheme=" in result.console
