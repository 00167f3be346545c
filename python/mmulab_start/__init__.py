"""The entry point of `mmulab`: an interrupt says so in one line also while Python still imports the rest."""

from __future__ import annotations

import os
import signal
from types import FrameType


def main() -> None:
    """Runs the command."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, _end)
    from mmulab.cli import main as run

    run()


def started() -> None:
    """The command begins: from now on an interrupt is an exception, which it handles."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"mmulab: interrupted\n")
    os._exit(130)
