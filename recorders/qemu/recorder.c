/* Records the instruction blocks and data addresses of a program that QEMU runs.

   This file is part of mmulab. It is a plugin for QEMU's user mode.

   SPDX-License-Identifier: GPL-2.0-or-later

   This program is free software; you can redistribute it and/or modify it under the terms of the
   GNU General Public License as published by the Free Software Foundation; either version 2 of the
   License, or (at your option) any later version. It comes without any warranty; the file
   ../valgrind/LICENSE holds the terms. */

/* QEMU says when a translation block begins, and after each access where it was. Which accesses a block
   makes is known only then: conditional instructions make them or not. So a block and its
   pattern of accesses become a run of the stream when that pattern is seen for the first time.

   A block can be left early, by a fault. The instructions that begin are counted by code that QEMU puts
   before each; with several threads, which would share the counter, a block counts whole. */

#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "plugin.h"

typedef uint8_t UChar;
typedef uint16_t UShort;
typedef uint32_t UInt;
typedef uint64_t ULong;
#include "stream.h"

EXPORT int qemu_plugin_version = PLUGIN_VERSION;

enum {
   /* Of a block; QEMU ends one after 512 instructions, each of which may load or store 16 registers. */
   MOST_INSTRUCTIONS = 512,
   MOST_ACCESSES = 16 * MOST_INSTRUCTIONS,
   PENDING_BYTES = 256 * 1024,
   MOST_THREADS = 32768,
   PAGE = 4096,
   /* Where the channel's descriptor goes, out of the way of the program's. */
   FIRST_DESCRIPTOR = 900,
};

enum { LOAD, STORE, MODIFY };

/* QEMU maps a program's memory of 64 bits far below; what is above is its own (linux-user/mmap.c,
   TASK_UNMAPPED_BASE; Linux gives out addresses from the top). */
#define OWN_MEMORY 0x700000000000

static void stop(const char* problem)
{
   fprintf(stderr, "mmulab: %s\n", problem);
   kill(getpid(), SIGKILL);
}

/* ---- The channel: ../valgrind/stream.h ---- */

static int channel = -1;
static Control* control;
static Welcome ring;
static UInt free_segments;
/* False in a forked child, which nobody reads. */
static bool recording;
/* Of the stream, and of everything that is written into it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void begin_segment(UInt segment)
{
   UChar* start = (UChar*)control + CONTROL_BYTES + (size_t)segment * ring.segment_bytes;
   control->limit = (ULong)(start + ring.segment_bytes);
   control->cursor = (ULong)start;
   control->segment_start = (ULong)start;
   control->segment = segment;
}

static void next_segment(void)
{
   Notice notice = {control->segment, control->cursor - control->segment_start};
   if (send(channel, &notice, sizeof notice, MSG_NOSIGNAL) != sizeof notice)
      stop("nobody reads the recording any more");
   while (free_segments == 0) {
      UChar bytes[64];
      ssize_t count = read(channel, bytes, sizeof bytes);
      if (count < 0 && errno == EINTR)
         continue;
      if (count <= 0)
         stop("nobody reads the recording any more");
      free_segments += count;
   }
   free_segments--;
   begin_segment((control->segment + 1) % ring.segment_count);
}

/* Where a record of so many bytes goes; it is there when the cursor has moved behind it. */
static UChar* room(size_t length)
{
   if (control->cursor + length > control->limit)
      next_segment();
   return (UChar*)control->cursor;
}

static void put_record(UInt kind, const void* first, UInt first_bytes, const void* second,
                       UInt second_bytes)
{
   UInt length = first_bytes + second_bytes;
   UChar* to = room(8 + length);
   memcpy(to, &kind, 4);
   memcpy(to + 4, &length, 4);
   memcpy(to + 8, first, first_bytes);
   memcpy(to + 8 + first_bytes, second, second_bytes);
   control->cursor += 8 + length;
}

static bool open_channel(const char* name)
{
   struct sockaddr_un address = {.sun_family = AF_UNIX};
   union {
      char bytes[CMSG_SPACE(sizeof(int))];
      struct cmsghdr header;
   } rights;
   struct iovec part = {&ring, sizeof ring};
   struct msghdr message = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &rights,
                            .msg_controllen = sizeof rights};
   Greeting greeting = {.magic = STREAM_GREETING_MAGIC, .process = getpid()};
   size_t length = strlen(name);
   int memory;
   if (length + 1 > sizeof address.sun_path)
      return false;
   memcpy(address.sun_path + 1, name, length);
   int connection = socket(AF_UNIX, SOCK_STREAM, 0);
   channel = fcntl(connection, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
   if (channel < 0)
      channel = fcntl(connection, F_DUPFD_CLOEXEC, 0);
   close(connection);
   if (connect(channel, (struct sockaddr*)&address,
               offsetof(struct sockaddr_un, sun_path) + 1 + length) < 0 ||
       send(channel, &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting ||
       recvmsg(channel, &message, MSG_CMSG_CLOEXEC) != sizeof ring ||
       CMSG_FIRSTHDR(&message) == NULL)
      return false;
   memcpy(&memory, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof memory);
   control = mmap(NULL, CONTROL_BYTES + (size_t)ring.segment_bytes * ring.segment_count,
                  PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
   close(memory);
   if (control == MAP_FAILED)
      return false;
   free_segments = ring.segment_count - 1;
   begin_segment(0);
   recording = true;
   return true;
}

static void forked(void)
{
   recording = false;
}

/* ---- Blocks and runs ---- */

/* A block with one pattern of accesses, as the reader knows it. */
typedef struct Run {
   struct Run* next;
   UInt number;
   UInt instructions;
   UInt accesses;
   RunAccess pattern[];
} Run;

/* A translated block. QEMU may use it as long as it runs, and does not say when it no longer does. */
typedef struct {
   ULong address;
   UInt instructions;
   /* The commonest come first. */
   Run* runs;
   UChar sizes_bytes[];
} Block;

/* What a thread is doing, and what of it is not in the stream yet. */
typedef struct {
   UInt number;
   Block* block;
   /* The counter of instructions when the block began. */
   ULong since;
   UInt accesses;
   RunAccess pattern[MOST_ACCESSES];
   ULong addresses[MOST_ACCESSES];
   UInt pending_bytes;
   UChar pending[PENDING_BYTES];
   /* Of the system call that it makes. */
   ULong address, length_bytes, new_length_bytes;
   bool executable;
} Thread;

static Thread* threads[MOST_THREADS];
static UInt threads_begun;
static UInt running_thread;
static UInt runs_defined;
/* Instructions that have begun, as long as there is one thread. */
static ULong begun;

/* The lock is held. */
static void put_pending(Thread* thread)
{
   if (thread->pending_bytes == 0)
      return;
   if (running_thread != thread->number) {
      running_thread = thread->number;
      put_record(RECORD_THREAD, &thread->number, 4, NULL, 0);
   }
   memcpy(room(thread->pending_bytes), thread->pending, thread->pending_bytes);
   control->cursor += thread->pending_bytes;
   thread->pending_bytes = 0;
}

static Run* define_run(const Thread* thread, UInt instructions, UInt accesses)
{
   Block* block = thread->block;
   size_t pattern_bytes = accesses * sizeof(RunAccess);
   Run* run = malloc(sizeof *run + pattern_bytes);
   if (run == NULL)
      stop("no memory is left");
   pthread_mutex_lock(&lock);
   *run = (Run){block->runs, runs_defined++, instructions, accesses};
   memcpy(run->pattern, thread->pattern, pattern_bytes);
   block->runs = run;
   struct {
      RunHeader header;
      UChar sizes_bytes[MOST_INSTRUCTIONS];
   } body = {.header = {run->number, 0, block->address, instructions, accesses}};
   memcpy(body.sizes_bytes, block->sizes_bytes, instructions);
   put_record(RECORD_DEFINE, &body, sizeof body.header + instructions, run->pattern, pattern_bytes);
   pthread_mutex_unlock(&lock);
   return run;
}

static Run* find_run(const Thread* thread, UInt instructions, UInt accesses)
{
   for (Run* run = thread->block->runs; run != NULL; run = run->next)
      if (run->instructions == instructions && run->accesses == accesses &&
          memcmp(run->pattern, thread->pattern, accesses * sizeof(RunAccess)) == 0)
         return run;
   return define_run(thread, instructions, accesses);
}

/* The thread's block has ended: it becomes a record. */
static void finish_block(Thread* thread)
{
   Block* block = thread->block;
   if (block == NULL)
      return;
   UInt instructions = block->instructions, accesses = thread->accesses;
   if (threads_begun == 1 && begun - thread->since < instructions) {
      /* The last one that began did not end: it will begin again. */
      instructions = begun - thread->since;
      instructions -= instructions > 0;
      while (accesses > 0 && thread->pattern[accesses - 1].instruction >= instructions)
         accesses--;
   }
   thread->block = NULL;
   thread->accesses = 0;
   if (instructions == 0)
      return;
   thread->block = block;
   const Run* run = find_run(thread, instructions, accesses);
   thread->block = NULL;
   UChar* to = thread->pending + thread->pending_bytes;
   memcpy(to, &run->number, 4);
   memcpy(to + 4, thread->addresses, 8 * accesses);
   thread->pending_bytes += 4 + 8 * accesses;
   /* With one thread at once, so that one that is killed leaves all that it did. */
   if (threads_begun == 1 ||
       thread->pending_bytes > sizeof thread->pending - 4 - sizeof thread->addresses) {
      pthread_mutex_lock(&lock);
      put_pending(thread);
      pthread_mutex_unlock(&lock);
   }
}

static void begin_block(unsigned index, void* data)
{
   Thread* thread = threads[index];
   if (!recording)
      return;
   finish_block(thread);
   thread->block = data;
   thread->since = begun;
}

/* `data`: the instruction's place in its block. */
static void accessed(unsigned index, MemoryInformation information, uint64_t address, void* data)
{
   Thread* thread = threads[index];
   RunAccess access = {.instruction = (uintptr_t)data,
                       .size_bytes = 1 << qemu_plugin_mem_size_shift(information),
                       .kind = qemu_plugin_mem_is_store(information)};
   if (!recording || thread->block == NULL)
      return;
   if (access.kind == STORE && thread->accesses > 0) {
      /* What loads and stores the same is one access to the reader, as with Valgrind. */
      RunAccess* last = &thread->pattern[thread->accesses - 1];
      if (last->instruction == access.instruction && last->size_bytes == access.size_bytes &&
          last->kind == LOAD && thread->addresses[thread->accesses - 1] == address) {
         last->kind = MODIFY;
         return;
      }
   }
   if (thread->accesses == MOST_ACCESSES)
      stop("a block makes more accesses than can be recorded");
   thread->pattern[thread->accesses] = access;
   thread->addresses[thread->accesses++] = address;
}

/* ---- Mappings ---- */

/* What the program's addresses lack to those of QEMU. */
static ULong guest_base;
static bool is_64_bit;

/* A line of /proc/self/maps. */
typedef struct {
   ULong start, end, offset;
   bool readable, writable;
   char name[PATH_MAX];
} Line;

static bool next_line(FILE* maps, Line* line)
{
   char text[PATH_MAX + 128], r, w;
   int name = 0;
   if (fgets(text, sizeof text, maps) == NULL ||
       sscanf(text, "%" SCNx64 "-%" SCNx64 " %c%c%*c%*c %" SCNx64 " %*s %*u %n", &line->start,
              &line->end, &r, &w, &line->offset, &name) < 5)
      return false;
   line->readable = r == 'r';
   line->writable = w == 'w';
   text[strcspn(text, "\n")] = 0;
   snprintf(line->name, sizeof line->name, "%s", text[name] == '/' ? text + name : "");
   return true;
}

static void put_mapping(ULong address, ULong length, bool executable, const char* name)
{
   Mapping mapping = {address, length, executable, strlen(name)};
   put_record(RECORD_MAP, &mapping, sizeof mapping, name, mapping.name_bytes);
}

/* What of a program or library is to be executed. */
typedef struct {
   int count;
   struct {
      ULong start, end;
   } parts[16];
} Code;

#define FIND_CODE(BITS)                                                                            \
   do {                                                                                            \
      Elf##BITS##_Ehdr header;                                                                     \
      Elf##BITS##_Phdr segment;                                                                    \
      rewind(file);                                                                                \
      if (fread(&header, sizeof header, 1, file) != 1 ||                                           \
          fseek(file, (long)header.e_phoff, SEEK_SET) != 0)                                        \
         break;                                                                                    \
      for (int i = 0; i < header.e_phnum && code->count < 16; i++) {                               \
         if (fread(&segment, sizeof segment, 1, file) != 1)                                        \
            break;                                                                                 \
         if (segment.p_type == PT_LOAD && segment.p_flags & PF_X) {                                \
            code->parts[code->count].start = segment.p_offset & -(ULong)PAGE;                      \
            code->parts[code->count++].end = segment.p_offset + segment.p_filesz;                  \
         }                                                                                         \
      }                                                                                            \
   } while (false)

static void find_code(const char* name, Code* code)
{
   unsigned char identification[EI_NIDENT];
   FILE* file = name[0] != 0 ? fopen(name, "re") : NULL;
   code->count = 0;
   if (file == NULL)
      return;
   if (fread(identification, sizeof identification, 1, file) == 1 &&
       memcmp(identification, ELFMAG, SELFMAG) == 0) {
      if (identification[EI_CLASS] == ELFCLASS64)
         FIND_CODE(64);
      else
         FIND_CODE(32);
   }
   fclose(file);
}

static bool is_code(const Code* code, ULong offset)
{
   bool found = false;
   for (int part = 0; part < code->count; part++)
      found |= code->parts[part].start <= offset && offset < code->parts[part].end;
   return found;
}

/* QEMU itself executes nothing of a program, so that its mappings do not say what is code. */
static void put_line(const Line* line, const char* name)
{
   ULong length = line->end - line->start, place = 0;
   Code code;
   find_code(line->name, &code);
   while (place < length) {
      ULong start = place;
      bool executable = is_code(&code, line->offset + start);
      while (place < length && is_code(&code, line->offset + place) == executable)
         place += PAGE;
      put_mapping(line->start + start - guest_base, place - start, executable, name);
   }
}

static char* maps_before;

/* What is mapped before the program, and so not the program's. */
static void note_maps(void)
{
   size_t length = 0, room = 0;
   FILE* maps = fopen("/proc/self/maps", "re");
   if (maps == NULL)
      return;
   while (!feof(maps)) {
      if (length + PAGE > room) {
         room = 2 * room + 2 * PAGE;
         maps_before = realloc(maps_before, room);
         if (maps_before == NULL)
            stop("no memory is left");
      }
      length += fread(maps_before + length, 1, PAGE, maps);
   }
   maps_before[length] = 0;
   fclose(maps);
}

static bool was_there(ULong start)
{
   for (const char* line = maps_before; line != NULL; line = strchr(line, '\n')) {
      line += *line == '\n';
      ULong first = strtoull(line, NULL, 16);
      const char* dash = strchr(line, '-');
      if (dash != NULL && first <= start && start < strtoull(dash + 1, NULL, 16))
         return true;
   }
   return false;
}

/* All that QEMU has mapped for the program. Its stack is known by the size that QEMU gives it: the
   limit of this process, but at least 8 MB. */
static void put_all_mappings(void)
{
   struct rlimit limit = {0};
   Line line;
   FILE* maps = fopen("/proc/self/maps", "re");
   getrlimit(RLIMIT_STACK, &limit);
   ULong stack = limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur < 8 << 20 ? 8 << 20 : limit.rlim_cur;
   if (maps == NULL)
      return;
   while (next_line(maps, &line)) {
      ULong address = line.start - guest_base, length = line.end - line.start;
      if (!line.readable || line.start < guest_base || was_there(line.start) ||
          (is_64_bit ? address >= OWN_MEMORY : address >> 32 != 0))
         continue;
      /* A page for returning from signals may lie behind it. */
      bool is_stack = line.writable && line.name[0] == 0 && length - stack <= 2 * PAGE;
      put_line(&line, is_stack ? "[stack]" : line.name);
   }
   fclose(maps);
   free(maps_before);
   maps_before = NULL;
}

/* The file behind an address of the program; empty if there is none. */
static void find_name(ULong address, Line* line)
{
   FILE* maps = fopen("/proc/self/maps", "re");
   bool found = false;
   while (maps != NULL && !found && next_line(maps, line))
      found = line->start <= address + guest_base && address + guest_base < line->end;
   if (!found)
      line->name[0] = 0;
   if (maps != NULL)
      fclose(maps);
}

/* Numbers of system calls (Linux: arch's syscall tables; include/uapi/asm-generic/unistd.h). */
typedef struct {
   const char* target;
   bool is_64_bit;
   int brk, mmap, mmap2, munmap, mremap, mprotect;
} Calls;

static const Calls KNOWN_TARGETS[] = {
   {"aarch64", true, 214, 222, -1, 215, 216, 226}, {"riscv64", true, 214, 222, -1, 215, 216, 226},
   {"arm", false, 45, 90, 192, 91, 163, 125},      {"x86_64", true, 12, 9, -1, 11, 25, 10},
   {"i386", false, 45, 90, 192, 91, 163, 125},
};
static const Calls* calls;
static ULong heap_end;

static void call(PluginId id, unsigned index, int64_t number, uint64_t first, uint64_t second,
                 uint64_t third, uint64_t fourth, uint64_t fifth, uint64_t sixth, uint64_t seventh,
                 uint64_t eighth)
{
   (void)id, (void)number, (void)fourth, (void)fifth, (void)sixth, (void)seventh, (void)eighth;
   Thread* thread = threads[index];
   if (!recording)
      return;
   finish_block(thread);
   thread->address = first;
   thread->length_bytes = second;
   /* That of `mremap`, that of the others. */
   thread->new_length_bytes = third;
   thread->executable = third & PROT_EXEC;
}

static ULong whole_pages(ULong length)
{
   return (length + PAGE - 1) & -(ULong)PAGE;
}

static void put_unmapping(ULong address, ULong length)
{
   Unmapping unmapping = {address, length};
   put_record(RECORD_UNMAP, &unmapping, sizeof unmapping, NULL, 0);
}

static void called(PluginId id, unsigned index, int64_t number, int64_t result)
{
   (void)id;
   Thread* thread = threads[index];
   ULong address = is_64_bit ? (ULong)result : (UInt)result;
   Line line;
   if (!recording || (result < 0 && result >= -4095))
      return;
   pthread_mutex_lock(&lock);
   put_pending(thread);
   if (number == calls->mmap || number == calls->mmap2) {
      find_name(address, &line);
      put_mapping(address, whole_pages(thread->length_bytes), thread->executable, line.name);
   } else if (number == calls->munmap) {
      put_unmapping(thread->address, whole_pages(thread->length_bytes));
   } else if (number == calls->mremap) {
      find_name(address, &line);
      put_unmapping(thread->address, whole_pages(thread->length_bytes));
      put_mapping(address, whole_pages(thread->new_length_bytes), false, line.name);
   } else if (number == calls->mprotect && thread->executable) {
      find_name(thread->address, &line);
      put_mapping(thread->address, whole_pages(thread->length_bytes), true, line.name);
   } else if (number == calls->brk) {
      ULong end = whole_pages(address);
      if (heap_end != 0 && end > heap_end)
         put_mapping(heap_end, end - heap_end, false, "[heap]");
      if (end < heap_end)
         put_unmapping(end, heap_end - end);
      heap_end = end;
   }
   pthread_mutex_unlock(&lock);
}

/* ---- What QEMU calls ---- */

static void translated(PluginId id, struct qemu_plugin_tb* translation)
{
   (void)id;
   size_t instructions = qemu_plugin_tb_n_insns(translation);
   if (!recording || instructions == 0)
      return;
   if (maps_before != NULL) {
      struct qemu_plugin_insn* first = qemu_plugin_tb_get_insn(translation, 0);
      guest_base = (ULong)qemu_plugin_insn_haddr(first) - qemu_plugin_tb_vaddr(translation);
      put_all_mappings();
   }
   Block* block = calloc(1, sizeof *block + instructions);
   if (block == NULL)
      stop("no memory is left");
   if (instructions > MOST_INSTRUCTIONS)
      stop("a block is longer than can be recorded");
   block->address = qemu_plugin_tb_vaddr(translation);
   block->instructions = instructions;
   qemu_plugin_register_vcpu_tb_exec_cb(translation, begin_block, CALLBACK_NO_REGISTERS, block);
   for (size_t i = 0; i < instructions; i++) {
      struct qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(translation, i);
      block->sizes_bytes[i] = qemu_plugin_insn_size(instruction);
      qemu_plugin_register_vcpu_insn_exec_inline(instruction, INLINE_ADD_U64, &begun, 1);
      /* One for both: QEMU 7.2 calls one for stores at loads too. */
      qemu_plugin_register_vcpu_mem_cb(instruction, accessed, CALLBACK_NO_REGISTERS,
                                       MEMORY_READ_WRITE, (void*)i);
   }
}

static void thread_begins(PluginId id, unsigned index)
{
   (void)id;
   Thread* thread = index < MOST_THREADS ? calloc(1, sizeof *thread) : NULL;
   if (thread == NULL)
      stop("there are too many threads");
   pthread_mutex_lock(&lock);
   thread->number = ++threads_begun;
   threads[index] = thread;
   pthread_mutex_unlock(&lock);
}

static void thread_ends(PluginId id, unsigned index)
{
   (void)id;
   if (!recording || threads[index] == NULL)
      return;
   finish_block(threads[index]);
   pthread_mutex_lock(&lock);
   put_pending(threads[index]);
   free(threads[index]);
   threads[index] = NULL;
   pthread_mutex_unlock(&lock);
}

/* QEMU has stopped the other threads. */
static void end(PluginId id, void* data)
{
   (void)id, (void)data;
   if (!recording)
      return;
   for (unsigned index = 0; index < MOST_THREADS; index++)
      if (threads[index] != NULL) {
         finish_block(threads[index]);
         put_pending(threads[index]);
      }
}

EXPORT int qemu_plugin_install(PluginId id, const PluginInformation* information, int count,
                               char** arguments)
{
   for (size_t i = 0; i < sizeof KNOWN_TARGETS / sizeof *KNOWN_TARGETS; i++)
      if (strcmp(information->target_name, KNOWN_TARGETS[i].target) == 0)
         calls = &KNOWN_TARGETS[i];
   if (calls == NULL) {
      fprintf(stderr, "mmulab: programs for %s are not recorded\n", information->target_name);
      return 1;
   }
   is_64_bit = calls->is_64_bit;
   if (count != 1 || strncmp(arguments[0], "channel=", 8) != 0 || !open_channel(arguments[0] + 8)) {
      fprintf(stderr, "mmulab: the plugin is for `mmulab record`, which it does not reach\n");
      return 1;
   }
   note_maps();
   pthread_atfork(NULL, NULL, forked);
   qemu_plugin_register_vcpu_init_cb(id, thread_begins);
   qemu_plugin_register_vcpu_exit_cb(id, thread_ends);
   qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
   qemu_plugin_register_vcpu_syscall_cb(id, call);
   qemu_plugin_register_vcpu_syscall_ret_cb(id, called);
   qemu_plugin_register_atexit_cb(id, end, NULL);
   return 0;
}
