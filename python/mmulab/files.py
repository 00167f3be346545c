"""Writing results so that no half-written file ever stands under its name."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from mmulab.errors import InputError, MmulabError, OutputError

# The job is in order and the machine is not: exit status 1 rather than 2.
NOT_THE_USERS_FAULT = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}


@contextmanager
def telling_where(path: Path) -> Iterator[None]:
    """Turns the system's refusals to write `path` into one line each."""
    try:
        yield
    except OSError as error:
        mend = "; make its folder first" if error.errno == errno.ENOENT else ""
        message = f"{path}: {(error.strerror or str(error)).lower()}{mend}; it was not written"
        kind = MmulabError if error.errno in NOT_THE_USERS_FAULT else OutputError
        raise kind(message) from error


def check_writable(path: Path | None) -> None:
    """Raises `OutputError` where a result could not be written to `path`: before the work, not
    after."""
    if path is None:
        return
    path = behind_links(path)
    with telling_where(path):  # already to ask what stands there may be refused
        if path.is_dir() or path.is_file() or not path.exists():
            refuse_what_is_no_file(path)
            with _unless_recorded(path):
                tempfile.TemporaryFile(dir=path.parent).close()


def check_outputs(paths: Sequence[Path | None], read: Sequence[Path] = ()) -> None:
    """`check_writable` for all files that a call is to write; raises `OutputError` where two are
    one, or where one is among those that it reads."""
    files = [path for path in paths if path is not None]
    for place, path in enumerate(files):
        check_writable(path)
        is_file = path.is_file() or not path.exists()  # others, as /dev/null, take what comes
        if is_file and os.path.realpath(path) in map(os.path.realpath, files[:place]):
            raise OutputError(f"{path}: two results cannot go to one file; give two names")
        if is_file and any(_is_one_file(path, other) for other in read):
            raise OutputError(f"{path}: is read for this result; name another file for it")


def _is_one_file(path: Path, other: Path) -> bool:
    """Whether both names are there and lead to one file."""
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # a name that the system does not take is no file
        return False


def behind_links(path: Path) -> Path:
    """The file that a link leads to, there or not: a link stays a link. Another path is left as it
    is.

    Raises `OutputError` for /dev/stdout and the like where they are files.
    """
    is_pipe = os.path.exists(path) and not os.path.isfile(path)  # or a device or a folder
    if is_pipe or not os.path.islink(path):
        return path
    if path.parts[:2] in (("/", "dev"), ("/", "proc")):  # others write there, too, so it must stay
        raise OutputError(f"{path}: is an open file; name it, or give none")
    return Path(os.path.realpath(path))


def refuse_what_is_no_file(path: Path) -> None:
    """Raises `OutputError` where a folder, device or pipe stands: a rename would replace it."""
    if path.name == "-":
        raise OutputError(f"{path}: is no name of a file here; name one")
    if path.is_dir():
        raise OutputError(f"{path}: is a directory; name a file")
    if path.exists() and not path.is_file():
        raise OutputError(f"{path}: is no file; name one")


@contextmanager
def alone(folder: Path, refusal: str) -> Iterator[None]:
    """Makes `folder` where it is missing, and keeps others out that ask in this way.

    Raises `InputError` with `refusal` where another has it.
    """
    while True:
        with telling_where(folder):
            folder.mkdir(exist_ok=True)
            try:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue  # whoever had it has just removed it
        try:
            _lock(descriptor, fcntl.LOCK_EX, InputError(refusal))
            if folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat()):
                yield
                return
        finally:
            os.close(descriptor)


@contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """Waits until no other process is in here with `folder`. A file system without locks lets all
    in."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int, refusal: MmulabError) -> None:
    """Raises `refusal` where another process has locked the file. A file system without locks keeps
    nobody out."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise refusal from error
    except OSError:
        pass


@contextmanager
def _unless_recorded(path: Path) -> Iterator[None]:
    """Raises `OutputError` where a recording writes `path`, which it has locked, and lets none
    begin meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # there is no file, or one that may be replaced but not read
        yield
        return
    refusal = f"{path}: another mmulab writes there; wait for its end, or name another file"
    try:
        _lock(descriptor, fcntl.LOCK_SH, OutputError(refusal))
        yield
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` when the block ends without an exception.

    Devices and pipes are written directly: renaming would replace them.
    """
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        with telling_where(path), path.open("wb") as file:
            yield file
        return
    with replacing_path(path) as temporary, temporary.open("wb") as file:
        yield file


@contextmanager
def replacing_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The same for a file that is written by name: `path` gets what stands under the name given.

    Raises `OutputError` where `path` is something else than a file.
    """
    path = behind_links(Path(path))
    with telling_where(path):
        refuse_what_is_no_file(path)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(descriptor)
        temporary = Path(name)
        try:
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            with _unless_recorded(path):
                temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
