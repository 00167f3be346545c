/* What the kernel's StrongARM code wants to know of the board, for the board of docs/board.md. */

/* A window on the chip's zero bank (SA-1100 manual, 6.2.3): reading it evicts every line of the data cache
 * without waiting for memory. The second one is for the minicache. */
#define FLUSH_BASE_PHYS         0xe0000000
#define FLUSH_BASE              0xf5000000
#define FLUSH_BASE_MINICACHE    0xf5100000

/* Read before the core waits for an interrupt: the system controller. */
#define UNCACHEABLE_ADDR        0xf11e0000
