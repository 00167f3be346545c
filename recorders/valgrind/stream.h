/* What the recorder and the process that reads it say to each other.
   The reading side is crates/trace/src/record/stream.rs: change both.

   SPDX-License-Identifier: GPL-2.0-or-later */

#ifndef MMULAB_STREAM_H
#define MMULAB_STREAM_H

/* The tool connects to the abstract Unix socket named by --channel and sends a greeting, and behind
   it the program and its arguments, each ended by a zero byte. The reader answers with a welcome and, beside it, a memory file of one control page and
   `segment_count` segments of `segment_bytes`. The tool fills the segments in turn; for each that
   is full it sends a notice, and for each that has been read the reader sends back one byte. */

#define STREAM_GREETING_MAGIC 0x316d6d75u

typedef struct {
   UInt magic;
   UInt process;
   /* The process that this one was forked from, or 0 for a program that was just loaded. */
   UInt forked_from;
   /* How many forks that process had made, this one included. */
   UInt fork_number;
   UInt command_bytes;
} Greeting;

/* A longer command line is cut after a word. */
#define MAX_COMMAND_BYTES (1024 * 1024)

typedef struct {
   UInt segment_bytes;
   UInt segment_count;
   /* Forks made before an exec by the program that this one replaces. */
   UInt forks_made;
   UInt unused;
} Welcome;

typedef struct {
   UInt segment;
   UInt length_bytes;
} Notice;

/* The first page of the memory file. The cursor stands here so that the reader can take what a
   killed program had written into its last segment. */
typedef struct {
   /* Where the next byte goes, as an address of the tool; of 64 bits in a tool of 32 bits too, whose
      code for the program then changes the lower half only. */
   ULong cursor;
   /* Beyond this a superblock might not fit. */
   ULong limit;
   /* First byte of the segment being filled. */
   ULong segment_start;
   ULong segment;
} Control;

#define CONTROL_BYTES 4096

/* More than one superblock can write. */
#define SUPERBLOCK_BYTES (64 * 1024)

/* A record is a run (its number as u32, then an address as u64 for each of its accesses), or one of
   these with a u32 length and a body. An access that was guarded and not made has NOT_MADE. */
#define RECORD_DEFINE 0xffffffffu
#define RECORD_THREAD 0xfffffffeu
#define RECORD_MAP    0xfffffffdu
#define RECORD_UNMAP  0xfffffffcu
#define RECORD_EXEC   0xfffffffbu
#define RECORD_EXEC_FAILED 0xfffffffau
/* The process ends by itself; the body is its exit status. One that a signal ends says nothing. */
#define RECORD_EXIT   0xfffffff9u
/* The program said that a region begins or ends; the body is a u32, 1 if it begins, then the name. */
#define RECORD_MARK   0xfffffff8u

#define NOT_MADE 0xffffffffffffffffull

/* Body of RECORD_DEFINE: this, then a size byte for each instruction, then the accesses. */
typedef struct {
   UInt number;
   /* The run begins inside its first instruction, after a point where it might have been left. */
   UInt continues;
   ULong address;
   UInt instructions;
   UInt accesses;
} RunHeader;

typedef struct {
   UShort instruction;
   UShort size_bytes;
   UChar kind; /* 0 load, 1 store, 2 modify */
   UChar guarded;
} RunAccess;

/* Body of RECORD_MAP: this, then the name. */
typedef struct {
   ULong address;
   ULong length_bytes;
   UInt executable;
   UInt name_bytes;
} Mapping;

/* Body of RECORD_UNMAP. */
typedef struct {
   ULong address;
   ULong length_bytes;
} Unmapping;

#endif
