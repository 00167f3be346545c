"""Changes the series: makes copies of the kernel's source to edit, and writes the series from them.

    series.py begin      unpacks to build/linux/work: `series`, with the patches, and `leave-out` on top of it
    series.py export     writes patches/, arch/ and leave-out.patch from what these two are now

A patch keeps its first line and the files that it has; a file that no patch has goes into the last one.
Where `series` changed, export brings `leave-out` up to it, and says which parts of leave-out.patch do not
apply any more; edit these files and export once more. Needs `make linux`, for the source.
"""

import argparse
import difflib
import filecmp
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent.parent.parent / "build" / "linux"
SOURCE = BUILT / "source"
SERIES = BUILT / "work" / "series"
LEAVE_OUT = BUILT / "work" / "leave-out"
BEFORE = BUILT / "work" / "before"
"""The series as it was when `leave-out` was made of it."""
LEAVE_OUT_PATCH = HERE / "leave-out.patch"
PATCHES = sorted((HERE / "patches").glob("*.patch"))
NEW = [path.relative_to(HERE) for path in sorted((HERE / "arch").rglob("*.[chS]"))]
"""Files that the series brings."""
FOLDERS = ("arch/arm", "kernel")
"""What may be edited: these are real copies, the rest are links to the source."""


def files_of(patch):
    """The files that a patch changes."""
    return re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.M)


def copy(source, target):
    """A tree whose files in FOLDERS can be changed without a change to `source`."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(exist_ok=True)
    subprocess.run(["cp", "-al", source, target], check=True)
    for folder in FOLDERS:
        shutil.rmtree(target / folder)
        subprocess.run(["cp", "-a", source / folder, target / folder], check=True)


def apply(patch, tree):
    """Applies a patch, or ends with what `patch` says."""
    words = ["patch", "--strip=1", "--no-backup-if-mismatch", f"--directory={tree}"]
    done = subprocess.run(
        words, stdin=patch.open(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(f"{patch} does not apply to {tree}; edit the files with rejects:\n{done.stdout}")


def begin():
    copy(SOURCE, SERIES)
    for patch in PATCHES:
        apply(patch, SERIES)
    for path in NEW:
        shutil.copy(HERE / path, SERIES / path)
    begin_leave_out()


def begin_leave_out():
    copy(SERIES, BEFORE)
    copy(SERIES, LEAVE_OUT)
    apply(LEAVE_OUT_PATCH, LEAVE_OUT)


def difference(before, after, path):
    """What `diff -u` says of a file in two trees."""
    sides = [
        (tree / path).read_text().splitlines(keepends=True) if (tree / path).exists() else []
        for tree in (before, after)
    ]
    return "".join(difflib.unified_diff(*sides, f"a/{path}", f"b/{path}"))


def changed(before, after):
    """The files that differ in two trees, of those that may be edited."""
    paths = [
        path.relative_to(after)
        for folder in FOLDERS
        for path in sorted((after / folder).rglob("*"))
        if path.is_file() and path.suffix not in (".orig", ".rej")
    ]
    return [
        path
        for path in paths
        if not (before / path).exists()
        or not filecmp.cmp(before / path, after / path, shallow=False)
    ]


def write(path, text):
    """Writes a file unless it says that already, since `make` goes by times; gives whether it did."""
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"changed: {path.relative_to(HERE)}")
    return True


def export():
    subject = LEAVE_OUT_PATCH.read_text().splitlines()[0]
    parts = [difference(BEFORE, LEAVE_OUT, path) for path in changed(BEFORE, LEAVE_OUT)]
    write(LEAVE_OUT_PATCH, subject + "\n\n" + "".join(parts))
    if export_series():
        begin_leave_out()


def export_series():
    """Writes the files and patches of the series; gives whether one changed."""
    paths = changed(SOURCE, SERIES)
    new = [path for path in paths if not (SOURCE / path).exists()]
    written = [write(HERE / path, (SERIES / path).read_text()) for path in new]
    left = {str(path) for path in paths} - {str(path) for path in new}
    for patch in PATCHES:
        subject = patch.read_text().splitlines()[0]
        files = files_of(patch)
        if patch is PATCHES[-1]:
            files += sorted(left - set(files))
        left -= set(files)
        parts = [difference(SOURCE, SERIES, path) for path in files]
        written.append(write(patch, subject + "\n\n" + "".join(parts)))
    return any(written)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("what", choices=("begin", "export"))
    {"begin": begin, "export": export}[options.parse_args().what]()


if __name__ == "__main__":
    main()
