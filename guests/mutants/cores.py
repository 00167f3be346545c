"""The four older cores that the programs here are built for."""

# Our machine: the number of CORE in machine.h, and the compiler's name of the core.
CORES = {
    "arm926ej-s": (1, "arm926ej-s"),
    "at91rm9200": (2, "arm920t"),
    "sa1100": (3, "strongarm"),
    "ixp425": (4, "xscale"),
}
ALL = tuple(CORES)
SPLIT_TLB = ("at91rm9200", "sa1100", "ixp425")
