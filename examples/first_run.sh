#!/bin/sh
# What `make run` does once everything is built: record the C compiler while it compiles a file of
# this project, replay the recording on every machine, and write the report.
#
# Usage: examples/first_run.sh DIRECTORY
set -eu
directory=$1
mkdir -p "$directory"

if command -v valgrind >/dev/null && command -v gcc >/dev/null && pkg-config --exists valgrind; then
  # Preprocessed first, so that the compiler proper is what gets recorded.
  gcc -E $(pkg-config --cflags valgrind) -DVGA_amd64=1 -DVGO_linux=1 -DVGP_amd64_linux=1 \
    -DVGPV_amd64_linux_vanilla=1 recorders/valgrind/recorder.c -o "$directory/recorder.i"
  exec mmulab run --format table --dir "$directory" -- \
    "$(gcc -print-prog-name=cc1)" -quiet -fpreprocessed "$directory/recorder.i" -o /dev/null
fi

echo "Going on with a small recording that comes with the project, examples/small.mmt. Recording" >&2
echo "the C compiler needs Valgrind and gcc: sudo apt-get install valgrind gcc" >&2
mmulab replay examples/small.mmt -o "$directory/replay.json"
mmulab miss-curves examples/small.mmt -o "$directory/miss-curves.json"
mmulab replay examples/small.mmt --format table
mmulab report "$directory"
