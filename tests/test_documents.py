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
    with GROUP.make_context("mmulab", words, resilient_parsing="--help" in words) as context:
        if context._protected_args:
            name, command, rest = GROUP.resolve_command(
                context, [*context._protected_args, *context.args]
            )
            command.make_context(name, rest, parent=context, resilient_parsing="--help" in rest)


def test_every_make_target_shown_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        for line in command_lines(document, "", "sh", "console"):
            if line.startswith("make "):
                words = [word for word in line.split()[1:] if not re.match(r"-|\w+=", word)]
                assert set(words) <= targets, (document.name, line)


def test_links_between_documents_lead_somewhere():
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            if not target.startswith("http"):
                assert (document.parent / target).exists(), (document.name, target)


def test_the_tour_of_the_readme_runs(tmp_path):
    """In the order of the text, in a folder that looks like the project's."""
    for name in ("examples", "machines", "published", "build"):
        (tmp_path / name).symlink_to(ROOT / name)
    for line in command_lines(ROOT / "README.md", "sh"):
        if line.startswith("mmulab ") and not needs_valgrind(line):
            subprocess.run(
                line, shell=True, cwd=tmp_path, env=environment(), check=True, capture_output=True
            )


def needs_valgrind(line: str) -> bool:
    """Recordings are tested elsewhere; a report that follows one needs its folder."""
    return line.startswith(("mmulab run", "mmulab record", "mmulab report results/ls"))


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{MMULAB.parent}:{os.environ['PATH']}"}


def test_the_python_of_the_readme_runs():
    for block in blocks(ROOT / "README.md", "python"):
        subprocess.run([sys.executable, "-c", block], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs():
    notebook = nbformat.read(ROOT / "examples" / "first_steps.ipynb", as_version=4)
    NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": ROOT / "examples"}},
    ).execute()
