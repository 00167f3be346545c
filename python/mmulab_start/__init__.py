"""The entry point of `mmulab`: what ends it says so in one line also while Python still imports the
rest."""

from __future__ import annotations

import os
import signal
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a job cleanly, unless they are ignored: SIGHUP as a terminal is closed."""


def main() -> None:
    """Runs the command."""
    for number in ENDING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _end)
    from mmulab.cli import main as run

    run()


def started() -> None:
    """The command begins: from now on an interrupt is an exception, which it handles."""
    for number in ENDING:
        if signal.getsignal(number) is _end:
            signal.signal(number, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"mmulab: interrupted\n")
    os._exit(130)
