#!/bin/sh
# Records the programs that the pages of docs/ measure: see docs/record.md, "The programs of these
# pages". Run it from the project's folder, after `make setup`, with .venv active.
#
# Usage: examples/record_programs.sh [DIRECTORY]
set -eu
directory=${1:-/tmp/programs}
mkdir -p "$directory"
cp python/mmulab/papers/object_store.c "$directory"
cd "$directory"

# The user's own environment would move the programs' stacks, and another locale what they load.
export LC_ALL=C
record() {
  output=$1
  shift
  mmulab record --environment PATH=/usr/bin:/bin --environment LC_ALL=C --environment PYTHONHASHSEED=0 -o "$output" "$@"
}

python3 -c "import random; random.seed(1); print(*(random.random() for _ in range(100000)), sep='\n')" > numbers.txt
python3 -c "import random, sys; random.seed(1); sys.stdout.buffer.write(random.randbytes(16 << 20))" > random.bin
echo 'd = {str(7919 * i): i for i in range(150_000)}; sum(d[str(7919 * i)] for i in range(143_000))' > dictionary.py

record cc1.mmt --max-instructions 200000000 -- \
  "$(gcc -print-prog-name=cc1)" -O2 -quiet -imultiarch x86_64-linux-gnu object_store.c -o /dev/null
record sort.mmt -- sort -S 32M numbers.txt -o sorted.txt
record words.mmt -- /usr/bin/python3 -c \
  "import collections; print(collections.Counter(open('numbers.txt').read().split()).most_common(3))"
record shuf.mmt -- shuf -i 1-4000000 --random-source=random.bin -o /dev/null
record dictionary.mmt -- /usr/bin/python3 dictionary.py
