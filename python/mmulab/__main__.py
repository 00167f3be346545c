"""`python -m mmulab` is `mmulab`."""

from mmulab.cli import main

main()
