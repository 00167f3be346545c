"""Changes a series: makes copies of the kernel's source to edit, and writes the series from them.

    series.py SERIES begin     unpacks to a folder of build/linux/work: `series`, with the patches, and `leave-out` on
                               top of it where there is a leave-out.patch
    series.py SERIES export    writes patches/, new files and leave-out.patch from what these are now

SERIES is address_spaces or tlb_migration. A patch keeps its first line and the files that it has; a
file that no patch has goes into the last one. Where `series` changed, export brings `leave-out` up
to it, and says which parts of leave-out.patch do not apply any more; edit these files and export
once more. Needs `make linux`, for the source.
"""

import difflib
import filecmp
import re
import shutil
import subprocess
import sys
from pathlib import Path

from mmulab.command import run_script, script_options

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent.parent / "build" / "linux"
SOURCE = BUILT / "source"
ALL = sorted(path.parent.name for path in HERE.glob("*/patches"))
CHANGED_FOLDERS = ("arch/arm", "kernel", "include/linux", "mm")
"""What may be edited: these are real copies, the rest are links to the source."""


def files_of(patch):
    """The files that a patch changes."""
    return re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.M)


def copy(source, target):
    """A tree whose files in CHANGED_FOLDERS can be changed without a change to `source`."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-al", source, target], check=True)
    for folder in CHANGED_FOLDERS:
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
        for folder in CHANGED_FOLDERS
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
    """Writes a file unless it says that already, since `make` goes by times; gives whether it
    did."""
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"changed: {path.relative_to(HERE)}")
    return True


class Series:
    """A series of patches: its folder here, and the trees in which it is edited."""

    def __init__(self, name):
        self.folder = HERE / name
        self.patches = sorted((self.folder / "patches").glob("*.patch"))
        self.leave_out_patch = self.folder / "leave-out.patch"
        work = BUILT / "work" / name
        self.tree, self.leave_out = work / "series", work / "leave-out"
        # The series as it was when `leave-out` was made of it.
        self.before = work / "before"

    def new_files(self):
        """Files that the series brings."""
        folders = [self.folder / "arch", self.folder / "include"]
        paths = [path for folder in folders for path in sorted(folder.rglob("*.[chS]"))]
        return [path.relative_to(self.folder) for path in paths]

    def begin(self):
        copy(SOURCE, self.tree)
        for patch in self.patches:
            apply(patch, self.tree)
        for path in self.new_files():
            shutil.copy(self.folder / path, self.tree / path)
        self.begin_leave_out()

    def begin_leave_out(self):
        if self.leave_out_patch.exists():
            copy(self.tree, self.before)
            copy(self.tree, self.leave_out)
            apply(self.leave_out_patch, self.leave_out)

    def export(self):
        if self.leave_out_patch.exists():
            subject = self.leave_out_patch.read_text().splitlines()[0]
            trees = (self.before, self.leave_out)
            parts = [difference(*trees, path) for path in changed(*trees)]
            write(self.leave_out_patch, subject + "\n\n" + "".join(parts))
        if self.export_patches():
            self.begin_leave_out()

    def export_patches(self):
        """Writes the files and patches of the series; gives whether one changed."""
        paths = changed(SOURCE, self.tree)
        new = [path for path in paths if not (SOURCE / path).exists()]
        written = [write(self.folder / path, (self.tree / path).read_text()) for path in new]
        left = {str(path) for path in paths} - {str(path) for path in new}
        for patch in self.patches:
            subject = patch.read_text().splitlines()[0]
            files = files_of(patch)
            if patch is self.patches[-1]:
                files += sorted(left - set(files))
            left -= set(files)
            parts = [difference(SOURCE, self.tree, path) for path in files]
            written.append(write(patch, subject + "\n\n" + "".join(parts)))
        return any(written)


def main():
    options = script_options(__doc__)
    options.add_argument("series", choices=ALL, help="which series")
    options.add_argument("what", choices=("begin", "export"), help="see above")
    chosen = options.parse_args()
    if not SOURCE.exists():
        raise SystemExit(f"{SOURCE} is not there. Type: make linux")
    series = Series(chosen.series)
    if chosen.what == "export" and not series.tree.exists():
        raise SystemExit(
            f"{series.tree} is not there. Type: .venv/bin/python guests/linux/series.py {chosen.series} begin"
        )
    {"begin": series.begin, "export": series.export}[chosen.what]()


if __name__ == "__main__":
    run_script(main)
