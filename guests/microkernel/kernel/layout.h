// Addresses and record offsets that C and assembly share.
#ifndef LAYOUT_H
#define LAYOUT_H

// One 1 MB section holds the whole kernel, and it is the last one, because the high exception vectors
// lie in it: vectors, fast path, thread records and stack then cost one entry of the I-TLB and one of
// the D-TLB. It is out of reach of the PID, which relocates only the low 32 MB.
#define KERNEL_VIRTUAL 0xfff00000
#define KERNEL_PHYSICAL 0x00100000
#define VECTORS 0xffff0000

#define DEVICES 0xffe00000           // the section with UART, timers, interrupt controller, instrumentation device
#define DEVICES_PHYSICAL 0x10100000
#define WINDOW 0xc0000000            // all RAM, neither cached nor buffered: page tables and page contents
#define WINDOW_MEGABYTES 32
#define EVICTION 0xe0000000          // addresses whose loading evicts other lines (docs/board.md: zero bank)
#define DIRECTORY_PHYSICAL 0x00004000 // the first page directory, 16 KB

#define USER_LIMIT 0xbe000000        // user addresses end where the 95th PID slot ends
#define SLOT_BYTES 0x02000000        // what the PID relocates

// Thread records and the record of the processor, which takes the place of thread 0. Five lines each:
// an odd number, so that the hot lines of neighbours fall into different sets of an 8-set cache.
#define RECORD_BYTES 160
#ifdef INVARIANTS // fewer, so that all can be looked at after each call
#define ID_INDEX_BITS 7
#define SPACES 64
#else
#define ID_INDEX_BITS 9
#define SPACES 512
#endif
#define THREADS (1 << ID_INDEX_BITS)

// The hot line of a thread: all that the fast path reads or writes of it.
#define THREAD_ID 0
#define THREAD_WAITS_FOR 4
#define THREAD_FAST_SWITCH 8
#define THREAD_PID 12
#define THREAD_SP 16
#define THREAD_LR 20
#define THREAD_PC 24
#define THREAD_SENDERS 28
// The second part: what only the general path needs.
#define THREAD_REGISTERS 32
#define THREAD_CPSR 84

// The processor's record. Its first two words are zero: a message to "thread 0" finds a thread that
// waits for nobody, and leaves the fast path.
#define CPU_CURRENT 8
#define CPU_READY_PRIORITY 12
#define CPU_DIRTY 16
#define CPU_CLEAN_AND_INVALIDATE_DATA 24
#define CPU_INVALIDATE_INSTRUCTIONS 28
#define CPU_FAST_FLUSHES 32
#define CPU_SCRATCH 64

// A thread's id: generation, priority, index. The fast path reads the priority from the id, and any
// index is one of the THREADS.
#define ID_PRIORITY_MASK 0xfc00
#define ID_GENERATION_SHIFT 16
#define PRIORITIES 64

#endif
