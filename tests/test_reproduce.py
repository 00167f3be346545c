"""The short version of the 1998 study's reproduction, from the command line to the report."""

import json
import shutil

import pytest
from conftest import mmulab

NEEDED = {
    "valgrind": "valgrind",
    "gcc": "gcc",
    "cjpeg": "libjpeg-turbo-progs",
}


@pytest.mark.skipif(
    any(shutil.which(program) is None for program in NEEDED),
    reason=f"needs the Debian packages {', '.join(NEEDED.values())}",
)
def test_the_short_reproduction_of_the_1998_study(tmp_path):
    arguments = ["reproduce", "vm-study-1998", "--dir", tmp_path, "--format", "json"]
    done = mmulab(*arguments, timeout_seconds=600)
    assert done.status in (0, 1), done.errors
    claims = json.loads(done.output)
    assert [claim["id"] for claim in claims] == [f"vm98-{number:02}" for number in range(1, 24)]
    assert {claim["verdict"] for claim in claims} <= {"holds", "differs"}
    assert done.status == any(claim["verdict"] == "differs" for claim in claims)
    for claim in claims:
        assert claim["published"] and claim["ours"], claim["id"]
        assert claim["verdict"] == "holds" or claim["why"], claim["id"]
    # What does not depend on the machine that the test runs on: it follows from the organisations.
    verdict = {claim["id"]: claim["verdict"] for claim in claims}
    assert verdict["vm98-09"] == verdict["vm98-18"] == "holds"
    folder = tmp_path / "vm-study-1998"
    page = (folder / "report.html").read_text(encoding="utf-8")
    # Two of the charts are matrices, which are not laid out again for a phone.
    assert "vm98-23" in page and page.count("<figure") == 8 and page.count("<svg") == 8 + 6
    assert not list(folder.rglob("*.parts")), "finished sweeps are kept only while it runs"
    figures = sorted(path.name for path in (folder / "figures").iterdir())
    assert figures == sorted(
        f"figure-{number:02}.{kind}" for number in range(6, 14) for kind in ("png", "svg")
    )
