"""What can go wrong, as one hierarchy. The text of each is one line: the file, the location in it,
what to do.

The engine raises these too; its errors are mapped once, in the binding crate.
"""


def printable(text: str) -> str:
    """The text on one line: names and values of a user's files may contain line ends and a
    terminal's control sequences, which are written as in a string of Python."""
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )


class MmulabError(Exception):
    """Anything that mmulab refuses or fails to do; the commands end with its `exit_status`."""

    exit_status = 1

    def __init__(self, message: str):
        super().__init__(printable(message))


class InputError(MmulabError, ValueError):
    """Wrong usage or bad input: nothing was done."""

    exit_status = 2


class MachineError(InputError):
    """A machine's description is wrong, or a change to it does not fit."""


class TraceError(InputError):
    """A trace cannot be read, is damaged, or cannot be replayed on this machine."""


class StudyError(InputError):
    """A study file is wrong."""


class OutputError(InputError):
    """A result cannot be written where it was asked for."""


class RecordError(MmulabError):
    """A program could not be recorded."""


class Interrupted(MmulabError):
    """The user ended the job, by Ctrl-C for instance."""

    exit_status = 130

    def __init__(self, message: str = "interrupted; nothing was written"):
        super().__init__(message)
