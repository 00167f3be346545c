"""The entry point of `mmulab`: an interrupt, or SIGTERM, says so in one line also while Python
still imports the rest."""

from __future__ import annotations

import os
import signal
from types import FrameType


def main() -> None:
    """Runs the command."""
    # Not where it is ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)
    from mmulab.cli import main as run

    run()


def started() -> None:
    """The command begins: from now on an interrupt is an exception, which it handles."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is _end:
            signal.signal(number, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"mmulab: interrupted\n")
    os._exit(130)
