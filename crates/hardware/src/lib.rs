//! Hardware structures: caches, TLBs, walkers, write buffers, memory and the cycle ledger. Knows no operating system, no instruction set and no file format.
