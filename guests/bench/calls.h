// Between the files of the program `calls`.
#ifndef CALLS_H
#define CALLS_H

#include "bench.h"

#define OTHER_AT 0x00080000
#define USER_LIMIT 0xbe000000
#define NOBODY 0xffff0000 // no thread has this id

enum command { READ, WRITE, WRITE_ALIAS, MAP, UNMAP };

// Counts and tells an error unless something holds.
void check(bool holds, const char *what);

// Three processes that obey.
extern struct process first, second, third;
void agent(u32 root);
void start_all(void);
void end_all(void);
// Whether one may access a word, and finds the value there.
bool reads(struct process *process, u32 address, u32 value);
bool writes(struct process *process, u32 address, u32 value);
// Whether it sees at one address what it has just written at another.
bool sees_alias(struct process *process, u32 written, u32 seen);

// calls_memory.c
void memory_calls(u32 root_thread);
// Enough other spaces run for all domains to change hands.
void crowd(void);

// calls_permitted.c
void permissions_of_calls(u32 root_thread);

// calls_work.c
void work_of_calls(void);

#endif
