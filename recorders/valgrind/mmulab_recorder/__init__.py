"""The folder of this module is the VALGRIND_LIB of mmulab's recorder: see `mmulab.recording`."""
