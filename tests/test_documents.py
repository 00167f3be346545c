"""What the documents say can be typed, and what they show runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import typer
from conftest import MMULAB, ROOT
from nbclient import NotebookClient

from mmulab.cli import app
from mmulab.recording import tool_directory

DOCUMENTS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
GROUP = typer.main.get_command(app)


def blocks(document: Path, *languages: str) -> list[str]:
    """The code blocks of a document in one of the languages ("" for none)."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)
    return [text for language, text in found if language in languages]


def command_lines(document: Path, *languages: str) -> list[str]:
    """The lines of those blocks that a shell would run, continuations joined."""
    indented = re.findall(r"^    (mmulab .*)$", document.read_text(), re.MULTILINE)
    lines = list(indented) if "" in languages else []
    for block in blocks(document, *languages):
        joined = block.replace("\\\n", " ")
        lines += [line.split(" #")[0].strip() for line in joined.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


MMULAB_LINES = sorted(
    {
        (document.name, line.removeprefix("$ "))
        for document in DOCUMENTS
        for line in command_lines(document, "", "sh", "console")
        if line.removeprefix("$ ").startswith("mmulab ")
    }
)


@pytest.mark.parametrize(("document", "line"), MMULAB_LINES)
def test_every_command_shown_is_one_that_exists(document, line):
    words = shlex.split(re.split(r" [|>] ?", line)[0])[1:]
    group, name, parent = GROUP, "mmulab", None
    while group is not None:
        shows_help = "--help" in words or "--version" in words
        context = group.make_context(name, words, parent=parent, resilient_parsing=shows_help)
        rest = [*getattr(context, "_protected_args", []), *context.args]
        is_group = hasattr(group, "resolve_command") and rest
        name, group, words = group.resolve_command(context, rest) if is_group else ("", None, [])
        parent = context


def test_every_make_target_shown_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        for line in command_lines(document, "", "sh", "console"):
            if line.startswith("make "):
                words = [word for word in line.split()[1:] if not re.match(r"-|\w+=", word)]
                assert set(words) <= targets, (document.name, line)


def refusal_of_make(folder: Path, *targets: str) -> str:
    """The one line by which `make` refuses to begin in a folder that has the project's Makefile."""
    (folder / "crates").mkdir(parents=True)
    (folder / "Makefile").symlink_to(ROOT / "Makefile")
    refused = subprocess.run(["make", *targets], cwd=folder, capture_output=True, text=True)
    assert refused.returncode == 2
    [line] = refused.stderr.splitlines()
    return line


def test_make_refuses_a_folder_with_a_space_in_its_name(tmp_path):
    folder = tmp_path / "my folder"
    line = refusal_of_make(folder, "help")
    assert f"has a space: {folder}." in line and "move the project" in line


def test_make_refuses_a_project_that_was_moved_since_it_was_set_up(tmp_path):
    folder = tmp_path / "moved"
    script = folder / ".venv" / "bin" / "mmulab"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!{tmp_path}/before/.venv/bin/python\n")
    line = refusal_of_make(folder, "run")
    assert (
        f"was set up as {tmp_path}/before and moved since. Type make clean, then make run" in line
    )
    for targets in (["help"], ["-n", "clean"]):
        subprocess.run(["make", *targets], cwd=folder, check=True, capture_output=True)
    script.write_text(f"#!{folder}/.venv/bin/python\n")
    subprocess.run(["make", "-n", "setup-arm"], cwd=folder, check=True, capture_output=True)


def test_make_installs_one_after_the_other_whatever_j_says(tmp_path):
    """MAKEFLAGS=-j is common, and a second apt would find the package database locked."""
    (tmp_path / "crates").mkdir()
    (tmp_path / "Makefile").symlink_to(ROOT / "Makefile")
    programs = tmp_path / "programs"
    programs.mkdir()
    log = tmp_path / "log"
    said = {
        "dpkg-query": "exit 1",
        "sudo": '[ "$1" = -n ] || "$@"',
        "apt-get": f"echo begin >> {log}; sleep 0.3; echo end >> {log}",
    }
    for name, script in said.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    needs = ["build/system", "build/valgrind-was-asked-for", "build/arm-tools"]
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    command = ["make", "-j8", *needs]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert log.read_text().split() == ["begin", "end"] * 2 * len(needs)


def test_links_between_documents_lead_somewhere():
    folders = ("benches", "crates", "guests", "recorders")
    readmes = [found for name in folders for found in (ROOT / name).glob("**/README.md")]
    for document in [*DOCUMENTS, *readmes]:
        for target, heading in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", document.read_text()):
            if target.startswith("http"):
                continue
            linked = document.parent / target if target else document
            assert linked.exists(), (document.name, target)
            assert not heading or heading in anchors(linked), (document.name, target, heading)


def anchors(document: Path) -> set[str]:
    """What a link may name in a document: its headings, in the form that renderers of Markdown give
    them."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }


def examples(document: Path) -> list[tuple[str, str]]:
    """What a document gives to be run as it stands: its `sh` and `python` blocks, in order."""
    text = document.read_text()
    return re.findall(r"^```(sh|python)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", list(filter(examples, DOCUMENTS)), ids=lambda path: path.name)
def test_the_examples_run(document, tmp_path):
    """In the order of the text, in a folder that looks like the project's."""
    for name in ("examples", "machines", "published", "build", "guests", "README.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    for language, text in examples(document):
        if language == "python":
            run([sys.executable, "-c", text], tmp_path)
            continue
        # What installs, needs what not everybody has, or measures this computer, is tested
        # elsewhere.
        lines = text.replace("\\\n", " ").splitlines()
        here = [line for line in lines if line.startswith(("mmulab ", "mkdir ", "cp ", "gzip "))]
        here = [line for line in here if not re.search("mmulab calibrate|this-computer", line)]
        for line in here:
            if HAS_RECORDER or not re.match(r"mmulab (run|record|report)|.*gzip.mmt", line):
                run(["bash", "-o", "pipefail", "-c", line], tmp_path)


HAS_RECORDER = (tool_directory() / "mmulab-amd64-linux").exists()


def run(command: list[str], folder: Path) -> None:
    path = f"{MMULAB.parent}:{os.environ['PATH']}"
    finished = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert finished.returncode == 0, (command[-1], finished.stderr)


def said_by(notebook: nbformat.NotebookNode) -> list[str]:
    """The texts that a notebook's cells show. Plots are not among them: they follow the plotting
    library's version."""
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    return [
        out["text"] if out["output_type"] == "stream" else out["data"]["text/plain"]
        for out in outputs
    ]


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_shows_what_it_gives():
    notebook = nbformat.read(ROOT / "examples" / "first_steps.ipynb", as_version=4)
    shown = said_by(notebook)
    NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": ROOT / "examples"}},
    ).execute()
    assert shown and shown == said_by(notebook)
