"""Where a recorded program's memory lies, beside where the kernel puts it."""

import errno
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import MMULAB, mmulab

import mmulab as api
from mmulab import Machine, replay
from mmulab.recording import tool_directory

# Prints the address of each request and what the system call left in its first argument's register.
SOURCE = r"""
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static void ask(long hint, long kilobytes, long kind, const char *name)
{
   register long flags asm("r10") = kind | MAP_ANONYMOUS;
   register long file asm("r8") = -1;
   register long offset asm("r9") = 0;
   long result, argument = hint;
   asm volatile("syscall" : "=a"(result), "+D"(argument) : "a"(SYS_mmap), "S"(kilobytes << 10),
                "d"(PROT_READ | PROT_WRITE), "r"(flags), "r"(file), "r"(offset) : "rcx", "r11", "memory");
   if (result > 0)
      *(volatile char *)result = 1;
   printf("%s %ld %ld\n", name, result, argument);
}

int main(void)
{
   ask(0, 4, MAP_PRIVATE, "page");
   ask(0, 2052, MAP_PRIVATE, "other-length");
   ask(0, 2048, MAP_PRIVATE, "block");
   ask(0, 8192, MAP_PRIVATE, "blocks");
   ask(0, 2048, MAP_PRIVATE, "behind-it");
   ask(0x700000001000, 2048, MAP_PRIVATE, "hint");
   ask(0, 0, MAP_PRIVATE, "nothing");
   ask(0, 0x3ffffffffff800, MAP_PRIVATE, "too-long");
}
"""
LARGE_PAGE_BYTES = 2 << 20


@pytest.fixture(scope="module")
def placed(tmp_path_factory) -> tuple[dict[str, tuple[int, int]], Path]:
    """What the program says under the recorder, and its trace."""
    folder = tmp_path_factory.mktemp("placed")
    (folder / "place.c").write_text(SOURCE)
    subprocess.run(["cc", "-O2", "-o", folder / "place", folder / "place.c"], check=True)
    ran = mmulab("record", "--quiet", "-o", folder / "t.mmt", "--", folder / "place")
    lines = map(str.split, ran.output.splitlines())
    return {name: (int(address), int(rest)) for name, address, rest in lines}, folder / "t.mmt"


def test_what_can_be_large_pages_is_aligned_as_linux_does(placed):
    """Linux, mm/mmap.c, __get_unmapped_area: private anonymous memory of whole large pages."""
    said, _ = placed
    for name in ("block", "blocks", "behind-it"):
        assert said[name][0] % LARGE_PAGE_BYTES == 0
    assert said["other-length"][0] % LARGE_PAGE_BYTES != 0
    assert said["hint"][0] == 0x700000001000
    assert said["nothing"][0] == said["too-long"][0] == -errno.EINVAL


def test_the_system_call_leaves_its_arguments_as_they_were(placed):
    said, _ = placed
    arguments = {name: argument for name, (_, argument) in said.items()}
    assert arguments.pop("hint") == 0x700000001000
    assert set(arguments.values()) == {0}


def test_the_trace_has_the_mapping_where_the_program_has_it(placed):
    said, trace = placed
    dumped = mmulab("trace", "dump", trace).output
    assert f"-- map {said['blocks'][0]:08x},{4 * LARGE_PAGE_BYTES}" in dumped
    [result] = replay(trace, Machine.load("zen5").with_changes({"organisation.pages": "on-fault"}))
    # One each for block, blocks, behind-it, whose first bytes were stored to; none for the stack.
    assert result.data["causes"]["large-page-fault"]["count"] == 3


def test_an_environment_of_its_own_puts_a_program_at_one_place(tmp_path, monkeypatch):
    """With that of the caller it lies elsewhere whenever that, or a folder that it names, has
    another length."""

    def accesses(length: int, environment: dict[str, str] | None) -> list[str]:
        folder = tmp_path / ("x" * length)
        shutil.copytree(tool_directory(), folder)
        with monkeypatch.context() as patch:
            patch.setenv("MMULAB_RECORDER", str(folder))
            patch.setenv("ANOTHER", "y" * 10 * length)
            patch.chdir(folder)
            trace = folder / f"{environment is None}.mmt"
            api.record(["/bin/true"], trace, environment=environment)
        dump = mmulab("trace", "dump", trace).output.splitlines()
        # The name of the folder itself is read byte by byte until it differs from another.
        shutil.rmtree(folder)
        return [line for line in dump if line.startswith((" L", " S", " M")) and line[-2:] != ",1"]

    fixed = {"PATH": "/usr/bin:/bin"}
    assert accesses(3, fixed) == accesses(200, fixed)
    assert accesses(3, None) != accesses(200, None)


def test_the_random_bytes_that_a_program_gets_are_the_same_in_each_recording(tmp_path):
    """getauxval(3): the C library's string functions read them, too, where they read beyond the end
    of a string."""
    source = tmp_path / "bytes.c"
    source.write_text(
        "#include <stdio.h>\n#include <sys/auxv.h>\n"
        'int main(void) { printf("%.16s|", (char *)getauxval(AT_RANDOM)); return 0; }\n'
    )
    subprocess.run(["cc", "-o", tmp_path / "bytes", source], check=True)
    ran = mmulab("record", "--quiet", "-o", tmp_path / "t.mmt", "--", tmp_path / "bytes")
    assert (ran.status, ran.output) == (0, "|")


def test_the_command_gives_a_program_the_named_variables_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("OURS", "1")
    words = ["--environment", "PATH=/usr/bin:/bin", "--environment", "A=b=c", "--environment", "E="]
    ran = mmulab("record", "--quiet", *words, "-o", tmp_path / "t.mmt", "--", "/usr/bin/env")
    shown = {line for line in ran.output.splitlines() if not line.startswith("MMULAB_PADDING=")}
    assert {"PATH=/usr/bin:/bin", "A=b=c", "E="} <= shown
    assert not [line for line in shown if line.startswith("OURS=")]


def test_a_program_gets_no_locale_that_nobody_chose(tmp_path):
    """Python names one where none is named (PEP 538)."""
    words = [MMULAB, "record", "--quiet", "-o", "t.mmt", "--", "/usr/bin/env"]
    for given in ({}, {"LC_CTYPE": "POSIX"}):
        environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), **given}
        ran = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        shown = [line for line in ran.stdout.splitlines() if line.startswith("LC_")]
        assert shown == [f"{name}={value}" for name, value in given.items()], ran.stderr


def test_the_name_that_the_caller_gives_the_present_folder_is_kept(tmp_path):
    words = ["--environment", "PATH=/usr/bin:/bin", "--environment", "PWD=/proc/self/cwd"]
    ran = mmulab("record", "--quiet", *words, "-o", tmp_path / "t.mmt", "--", "/usr/bin/env")
    shown = ran.output.splitlines()
    assert "PWD=/proc/self/cwd" in shown
    assert not [line for line in shown if line.startswith("MMULAB_PADDING=")]


@pytest.mark.parametrize("variable", ["A", "=b"])
def test_a_variable_without_a_name_or_a_value_is_refused(tmp_path, variable):
    ran = mmulab("record", "--environment", variable, "-o", tmp_path / "t.mmt", "--", "/bin/true")
    assert ran.status == 2 and f"{variable}: write NAME=VALUE" in ran.error_line
    assert not (tmp_path / "t.mmt").exists()


RESERVING = r"""
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void use(char *start, int pages)
{
   mprotect(start, pages * 4096, PROT_READ | PROT_WRITE);
   for (int page = 0; page < pages; page++)
      *(volatile char *)(start + page * 4096) = 1;
}

int main(void)
{
   char *start = (char *)0x700000000000;
   mmap(start, 64 << 20, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   use(start, 33);
   use(start + 33 * 4096, 2);
   /* The last four are given back and used anew. */
   mmap(start + 31 * 4096, 4 * 4096, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   use(start + 31 * 4096, 4);
   if (fork() == 0) {
      use(start + (32 << 20), 3);
      _exit(0);
   }
   wait(NULL);
}
"""


def test_memory_that_is_reserved_is_mapped_where_it_is_made_accessible(tmp_path):
    """Linux gives no large page to a block of which a part is PROT_NONE, such as what the C library
    reserves for threads."""
    (tmp_path / "reserving.c").write_text(RESERVING)
    subprocess.run(["cc", "-O1", "-o", tmp_path / "p", tmp_path / "reserving.c"], check=True)
    mmulab("record", "--quiet", "--follow-children", "-o", tmp_path / "t.mmt", "--", tmp_path / "p")

    def mapped(trace: str) -> list[str]:
        dumped = mmulab("trace", "dump", tmp_path / trace).output.splitlines()
        return [line for line in dumped if line.startswith(("-- map 7000", "-- unmap 7000"))]

    assert mapped("t.mmt") == [
        "-- unmap 700000000000,67108864",
        "-- map 700000000000,135168 data ",
        "-- map 700000021000,8192 data ",
        "-- unmap 70000001f000,16384",
        "-- map 70000001f000,16384 data ",
    ]
    assert mapped("t.1.mmt")[-1] == "-- map 700002000000,12288 data "
    [result] = replay(
        tmp_path / "t.mmt", Machine.load("zen5").with_changes({"organisation.pages": "on-fault"})
    )
    assert result.data["causes"]["large-page-fault"]["count"] == 0
