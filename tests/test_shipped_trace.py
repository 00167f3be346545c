"""The shipped recording reads as it was made: a change of the trace format must make it anew."""

import mmulab


def test_the_shipped_recording_reads_as_it_was_made(trace):
    """A decoder that misreads addresses would still read; its cache misses would give it away."""
    base = mmulab.replay(trace, "base")["base"]
    assert base.instructions == 15_650_481
    assert base.data["caches"]["L1i"]["misses"] == 162_159
    assert base.data["caches"]["L1d"]["misses"] == 163_880
