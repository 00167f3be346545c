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

# Whatever differs between users and installations is kept away. The environment moves a program's stack, and a
# locale what it loads; what streams are decides how they are buffered. /etc/ld.so.cache moves what is mapped below it,
# and is not read where LD_LIBRARY_PATH has all libraries. Python lists each folder in which it looks for a module:
# those that it needs here are the first that it finds.
export LC_ALL=C
record() {
  output=$1
  shift
  echo "recording $output" >&2
  mmulab record --environment PATH=/usr/bin:/bin --environment LC_ALL=C --environment PYTHONHASHSEED=0 \
    --environment "PYTHONPATH=$PWD/modules" --environment LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu \
    -o "$output" "$@" </dev/null >/dev/null 2>messages || { cat messages >&2; exit 1; }
}
rm -rf modules
mkdir modules
library=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
for module in encodings collections heapq.py keyword.py operator.py reprlib.py; do
  cp -R "$library/$module" modules
done
/usr/bin/python3 -m compileall -q modules

python3 -c "import random; random.seed(1); print(*(random.random() for _ in range(100000)), sep='\n')" > numbers.txt
python3 -c "import random, sys; random.seed(1); sys.stdout.buffer.write(random.randbytes(16 << 20))" > random.bin
echo 'd = {str(7919 * i): i for i in range(150_000)}; sum(d[str(7919 * i)] for i in range(143_000))' > dictionary.py

record cc1.mmt --max-instructions 200000000 -- \
  "$(gcc -print-prog-name=cc1)" -O2 -quiet -imultiarch x86_64-linux-gnu object_store.c -o /dev/null
record sort.mmt -- sort --parallel=1 -S 32M numbers.txt -o sorted.txt
record words.mmt -- /usr/bin/python3 -P -s -S -c \
  "import collections; print(collections.Counter(open('numbers.txt').read().split()).most_common(3))"
record shuf.mmt -- shuf -i 1-4000000 --random-source=random.bin -o /dev/null
record dictionary.mmt -- /usr/bin/python3 -P -s -S dictionary.py
rm messages
