"""mmulab: a laboratory for address translation and address-space switching.

    import mmulab
    trace = mmulab.record(["cc1", "-quiet", "-O2", "hello.c", "-o", "/dev/null"], "hello.mmt").path
    results = mmulab.replay(trace, mmulab.Machine.load("ultrix").vary("dtlb.entries", [64, 128]))
    results.table.to_pandas()

What the commands do, these functions do; both raise or print the same errors.
"""

from mmulab._engine import VERSION as __version__
from mmulab.boot import BootResult, Transcript, boot
from mmulab.calibrate import Calibration, calibrate
from mmulab.curves import MissCurves
from mmulab.errors import (
    InputError,
    MachineError,
    MmulabError,
    OutputError,
    RecordError,
    StudyError,
    TraceError,
)
from mmulab.machine import Machine, machine_names, machine_schema
from mmulab.profiling import Profile, profile
from mmulab.recording import TraceInformation, record
from mmulab.replaying import miss_curves, replay
from mmulab.results import MachineResult, ReplayResults
from mmulab.study import Study, sweep
from mmulab.trace import dump_trace, slice_trace, trace_information

__all__ = [
    "BootResult",
    "Calibration",
    "InputError",
    "Machine",
    "MachineError",
    "MachineResult",
    "MissCurves",
    "MmulabError",
    "OutputError",
    "Profile",
    "RecordError",
    "ReplayResults",
    "Study",
    "StudyError",
    "TraceError",
    "TraceInformation",
    "Transcript",
    "__version__",
    "boot",
    "calibrate",
    "dump_trace",
    "machine_names",
    "machine_schema",
    "miss_curves",
    "profile",
    "record",
    "replay",
    "slice_trace",
    "sweep",
    "trace_information",
]
