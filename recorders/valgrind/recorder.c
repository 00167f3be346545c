/* Records the instruction blocks and data addresses of a program.

   This file is part of mmulab. It is a Valgrind tool and is linked with Valgrind.

   SPDX-License-Identifier: GPL-2.0-or-later

   This program is free software; you can redistribute it and/or modify it under the terms of the
   GNU General Public License as published by the Free Software Foundation; either version 2 of the
   License, or (at your option) any later version. It comes without any warranty; the file LICENSE
   beside it holds the terms. */

/* The unit of recording is the run: instructions that follow each other in memory, inside one VEX
   superblock, with no way out between them. The code that we add to a superblock writes, for each
   run, its number and the address of each access straight into shared memory; a call is made only
   when a segment is full. The cursor moves at the end of a run, so a run that a fault cuts short
   leaves nothing. What a run is made of is written once, when its superblock is translated. */

#include "pub_tool_basics.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_libcsignal.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "pub_tool_xarray.h"

#include "mmulab.h"
#include "stream.h"

#if VG_WORDSIZE == 8
#include "libvex_guest_amd64.h"
#endif

/* Parts of Valgrind's core that its tool headers do not declare; the libraries have them. */
extern SysRes VG_(do_syscall)(UWord number, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord,
                              RegWord, RegWord);
extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt prot, Int fd,
                                                      Off64T offset);
extern Int VG_(safe_fd)(Int oldfd);
extern Addr VG_(am_get_advisory_client_simple)(Addr start, SizeT length, Bool* ok);

/* SOCK_CLOEXEC of the system's headers. */
#define CLOSE_ON_EXEC 02000000

/* What a program calls a region may be as long as this. */
#define MAX_REGION_NAME_BYTES 255

/* What the Makefile calls this tool's file. */
#if VG_WORDSIZE == 8
#define TOOL_FILE "mmulab-amd64-linux"
#else
#define TOOL_FILE "mmulab-x86-linux"
#endif

#define SYSTEM_CALL(number, a, b, c, d, e, f)                                                      \
   VG_(do_syscall)(number, (RegWord)(a), (RegWord)(b), (RegWord)(c), (RegWord)(d), (RegWord)(e),   \
                   (RegWord)(f), 0, 0)

static const HChar* clo_channel = NULL;
static Bool clo_follow_children = False;

/* ---- The channel ---- */

static Int channel = -1;
/* Lies at one address for the life of the process, also after a fork: instrumented code holds it. */
static volatile Control* control = NULL;
static Welcome ring;
static UInt free_segments;
/* False in a forked child that nobody records: its segment is written over and over. */
static Bool recording = False;
static UInt forks_made = 0;

/* Bodies of all RECORD_DEFINE so far, each behind its u32 length: a forked child keeps its
   translations, and its reader must know them. */
static XArray* definitions = NULL;

/* Nobody reads any more, so that going on would only waste the user's time. */
static void stop_program(void)
{
   SYSTEM_CALL(__NR_kill, VG_(getpid)(), VKI_SIGKILL, 0, 0, 0, 0);
}

static void send_all(const void* bytes, SizeT length)
{
   const HChar* position = bytes;
   while (length > 0) {
      SysRes result =
         SYSTEM_CALL(__NR_sendto, channel, position, length, VKI_MSG_NOSIGNAL, 0, 0);
      if (sr_isError(result)) {
         if (sr_Err(result) == VKI_EINTR)
            continue;
         stop_program();
         return;
      }
      position += sr_Res(result);
      length -= sr_Res(result);
   }
}

static UChar* segment_address(UInt segment)
{
   return (UChar*)control + CONTROL_BYTES + (SizeT)segment * ring.segment_bytes;
}

static void begin_segment(UInt segment)
{
   /* If we are killed in here the reader still finds the number of the segment that it has. */
   UChar* start = segment_address(segment);
   control->limit = (Addr)start + ring.segment_bytes - SUPERBLOCK_BYTES;
   control->cursor = (Addr)start;
   control->segment_start = (Addr)start;
   control->segment = segment;
}

static void hand_over_segment(void)
{
   Notice notice;
   notice.segment = control->segment;
   notice.length_bytes = control->cursor - control->segment_start;
   send_all(&notice, sizeof notice);
}

/* Called from instrumented code when the segment might not hold another superblock. */
static void next_segment(void)
{
   UChar bytes[64];
   UInt next;
   if (!recording) {
      begin_segment(0);
      return;
   }
   hand_over_segment();
   next = (control->segment + 1) % ring.segment_count;
   while (free_segments == 0) {
      SysRes result = SYSTEM_CALL(__NR_read, channel, bytes, sizeof bytes, 0, 0, 0);
      if (sr_isError(result) && sr_Err(result) == VKI_EINTR)
         continue;
      if (sr_isError(result) || sr_Res(result) == 0) {
         stop_program();
         return;
      }
      free_segments += sr_Res(result);
   }
   free_segments--;
   begin_segment(next);
}

static void make_room(void)
{
   if (control->cursor > control->limit)
      next_segment();
}

/* Writes a record with up to two parts; it may be longer than what a superblock reserves. */
static void put_record(UInt kind, const void* first, UInt first_bytes, const void* second,
                       UInt second_bytes)
{
   UInt length = first_bytes + second_bytes;
   if (!recording)
      return;
   tl_assert(length + 8 < SUPERBLOCK_BYTES);
   make_room();
   /* The cursor moves last, so that a record is there whole or not at all. */
   UChar* cursor = (UChar*)(Addr)control->cursor;
   VG_(memcpy)(cursor, &kind, 4);
   VG_(memcpy)(cursor + 4, &length, 4);
   VG_(memcpy)(cursor + 8, first, first_bytes);
   if (second_bytes > 0)
      VG_(memcpy)(cursor + 8 + first_bytes, second, second_bytes);
   control->cursor += 8 + length;
}

/* Word `index` of the program's command line: the program, then its arguments; NULL at the end. */
static const HChar* command_word(Word index)
{
   if (index == 0)
      return VG_(args_the_exename);
   if (index > VG_(sizeXA)(VG_(args_for_client)))
      return NULL;
   return *(HChar**)VG_(indexXA)(VG_(args_for_client), index - 1);
}

/* Connects to the reader and takes its memory file; the descriptor of the file, or -1. */
static Int open_channel(UInt forked_from, UInt fork_number)
{
   struct {
      UShort family;
      HChar path[108];
   } name;
   struct {
      const void* base;
      SizeT length;
   } part;
   struct {
      SizeT length;
      Int level;
      Int type;
      Int descriptor;
      Int padding;
   } rights;
   struct {
      void* name;
      UInt name_length;
#if VG_WORDSIZE == 8
      UInt padding;
#endif
      void* parts;
      SizeT part_count;
      void* control;
      SizeT control_length;
      UInt flags;
   } message;
   Greeting greeting;
   SysRes result;
   SizeT length = VG_(strlen)(clo_channel);
   Word word, words;

   if (length + 1 > sizeof name.path)
      return -1;
   name.family = VKI_AF_UNIX;
   name.path[0] = 0;
   VG_(memcpy)(name.path + 1, clo_channel, length);
   result = SYSTEM_CALL(__NR_socket, VKI_AF_UNIX, VKI_SOCK_STREAM | CLOSE_ON_EXEC, 0, 0, 0, 0);
   if (sr_isError(result))
      return -1;
   /* Moved out of the way: the program finds the descriptors that it would find without us. */
   channel = VG_(safe_fd)(sr_Res(result));
   result = SYSTEM_CALL(__NR_connect, channel, &name, 2 + 1 + length, 0, 0, 0);
   if (sr_isError(result))
      return -1;
   greeting.magic = STREAM_GREETING_MAGIC;
   greeting.process = VG_(getpid)();
   greeting.forked_from = forked_from;
   greeting.fork_number = fork_number;
   greeting.command_bytes = 0;
   for (words = 0; command_word(words) != NULL; words++) {
      SizeT bytes = VG_(strlen)(command_word(words)) + 1;
      if (greeting.command_bytes + bytes > MAX_COMMAND_BYTES)
         break;
      greeting.command_bytes += bytes;
   }
   send_all(&greeting, sizeof greeting);
   for (word = 0; word < words; word++)
      send_all(command_word(word), VG_(strlen)(command_word(word)) + 1);

   part.base = &ring;
   part.length = sizeof ring;
   VG_(memset)(&message, 0, sizeof message);
   message.parts = &part;
   message.part_count = 1;
   message.control = &rights;
   message.control_length = sizeof rights;
   do {
      result = SYSTEM_CALL(__NR_recvmsg, channel, &message, 0, 0, 0, 0);
   } while (sr_isError(result) && sr_Err(result) == VKI_EINTR);
   if (sr_isError(result) || sr_Res(result) != sizeof ring ||
       message.control_length < sizeof rights - sizeof rights.padding)
      return -1;
   return rights.descriptor;
}

static SizeT ring_bytes(void)
{
   return CONTROL_BYTES + (SizeT)ring.segment_bytes * ring.segment_count;
}

static void begin_stream(void)
{
   free_segments = ring.segment_count - 1;
   forks_made = ring.forks_made;
   begin_segment(0);
   recording = True;
}

/* ---- Mappings ---- */

static void put_mapping(Addr address, SizeT length, Bool executable, const HChar* name)
{
   Mapping mapping;
   mapping.address = address;
   mapping.length_bytes = length;
   mapping.executable = executable;
   mapping.name_bytes = VG_(strlen)(name);
   if (mapping.name_bytes > 4096)
      mapping.name_bytes = 4096;
   put_record(RECORD_MAP, &mapping, sizeof mapping, name, mapping.name_bytes);
}

static const HChar* segment_name(const NSegment* segment)
{
   const HChar* name;
   if (segment->kind == SkFileC) {
      name = VG_(am_get_filename)(segment);
      if (name == NULL)
         return "";
      /* Valgrind gives the program a page of its own code, to return from signal handlers. */
      const HChar* file = VG_(strrchr)(name, '/');
      return VG_(strcmp)(file != NULL ? file + 1 : name, TOOL_FILE) == 0 ? "[valgrind]" : name;
   }
   return segment->isCH ? "[heap]" : "";
}

static void put_segment(Addr address, SizeT length, Bool executable)
{
   const NSegment* segment = VG_(am_find_nsegment)(address);
   put_mapping(address, length, executable, segment != NULL ? segment_name(segment) : "");
}

/* Memory that the program may not touch, such as the C library reserves for what its threads will allocate. It becomes a
   mapping where it is made accessible: what Linux maps as one piece of a kind, and so as a large page, ends there. */
typedef struct {
   Addr start;
   Addr end;
} Range;

/* In no order. */
static XArray* reserved = NULL;

static void reserve(Addr start, Addr end)
{
   const Range range = {start, end};
   if (start < end)
      VG_(addToXA)(reserved, &range);
}

/* What is reserved from `start` to `end` is so no longer; with `is_mapped` it is a mapping from now on. */
static void end_reservation(Addr start, Addr end, Bool is_mapped, Bool executable)
{
   Word i;
   for (i = VG_(sizeXA)(reserved) - 1; i >= 0; i--) {
      const Range range = *(Range*)VG_(indexXA)(reserved, i);
      const Addr first = range.start > start ? range.start : start;
      const Addr last = range.end < end ? range.end : end;
      if (first >= last)
         continue;
      VG_(removeIndexXA)(reserved, i);
      reserve(range.start, first);
      reserve(last, range.end);
      if (is_mapped)
         put_segment(first, last - first, executable);
   }
}

static Bool is_accessible(const NSegment* segment)
{
   return segment != NULL && (segment->hasR || segment->hasW || segment->hasX);
}

/* All that is mapped now. The stack is given with the room that is reserved for it to grow: its
   growth makes no event. */
static void put_all_mappings(ThreadId thread)
{
   Addr stack = VG_(get_SP)(thread);
   const UInt kinds = SkAnonC | SkFileC | SkShmC;
   Int room = 1024;
   Addr* starts;
   Int count, i;
   while (True) {
      starts = VG_(malloc)("mmulab.mappings", room * sizeof *starts);
      count = VG_(am_get_segment_starts)(kinds, starts, room);
      if (count >= 0)
         break;
      VG_(free)(starts);
      room = -count + 16;
   }
   VG_(dropTailXA)(reserved, VG_(sizeXA)(reserved));
   for (i = 0; i < count; i++) {
      const NSegment* segment = VG_(am_find_nsegment)(starts[i]);
      Addr start = starts[i];
      Bool executable;
      const HChar* name;
      if (!is_accessible(segment)) {
         if (segment != NULL)
            reserve(start, segment->end + 1);
         continue;
      }
      executable = segment->hasX;
      name = segment_name(segment);
      SizeT length = segment->end + 1 - start;
      if (segment->start <= stack && stack <= segment->end) {
         const NSegment* room_below = VG_(am_find_nsegment)(start - 1);
         name = "[stack]";
         if (room_below != NULL && room_below->kind == SkResvn) {
            length += start - room_below->start;
            start = room_below->start;
         }
      }
      put_mapping(start, length, executable, name);
   }
   VG_(free)(starts);
}

static void put_unmapping(Addr address, SizeT length)
{
   Unmapping unmapping;
   unmapping.address = address;
   unmapping.length_bytes = length;
   put_record(RECORD_UNMAP, &unmapping, sizeof unmapping, NULL, 0);
}

/* Memory that was not there before. */
static void new_memory(Addr address, SizeT length, Bool executable)
{
   const NSegment* segment = VG_(am_find_nsegment)(address);
   end_reservation(address, address + length, False, False);
   if (is_accessible(segment)) {
      put_segment(address, length, executable);
   } else {
      /* It may lie over other memory, which is gone by it. */
      put_unmapping(address, length);
      reserve(address, address + length);
   }
}

static void new_mapping(Addr address, SizeT length, Bool r, Bool w, Bool x, ULong debug_handle)
{
   new_memory(address, length, x);
}

static void new_heap(Addr address, SizeT length, ThreadId thread)
{
   put_mapping(address, length, False, "[heap]");
}

static void moved_mapping(Addr from, Addr to, SizeT length)
{
   new_memory(to, length, False);
}

static void protect_mapping(Addr address, SizeT length, Bool r, Bool w, Bool x)
{
   if (r || w || x)
      end_reservation(address, address + length, True, x);
   if (x)
      put_segment(address, length, True);
}

static void end_mapping(Addr address, SizeT length)
{
   end_reservation(address, address + length, False, False);
   put_unmapping(address, length);
}

/* ---- Threads ---- */

#define MAX_THREADS 65536
static UInt thread_numbers[MAX_THREADS];
static UInt threads_seen = 0;
static ThreadId running_thread = VG_INVALID_THREADID;

static void put_thread(ThreadId thread)
{
   UInt slot = thread % MAX_THREADS;
   if (thread_numbers[slot] == 0)
      thread_numbers[slot] = ++threads_seen;
   put_record(RECORD_THREAD, &thread_numbers[slot], 4, NULL, 0);
}

/* Types of entries of the auxiliary vector (Linux, include/uapi/linux/auxvec.h), whose header needs a C library. */
#define AT_NULL 0
#define AT_RANDOM 25

/* The kernel gives each program 16 random bytes (getauxval(3), AT_RANDOM). The same ones in each recording, since
   the C library's string functions read beyond the end of the string that lies below them. On the stack are
   the number of arguments, these, the environment, and the auxiliary vector (System V ABI AMD64 1.0, 3.4.1). */
static void clear_random_bytes(ThreadId thread)
{
   UWord* word = (UWord*)VG_(get_SP)(thread);
   word += 1 + word[0] + 1;
   while (*word != 0)
      word++;
   for (word++; word[0] != AT_NULL; word += 2)
      if (word[0] == AT_RANDOM)
         VG_(memset)((void*)word[1], 0, 16);
}

static void start_client_code(ThreadId thread, ULong blocks_dispatched)
{
   if (thread == running_thread)
      return;
   /* Not earlier: Valgrind's thread table, which knows the stack, comes after the tool's start. */
   if (threads_seen == 0) {
      clear_random_bytes(thread);
      put_all_mappings(thread);
   }
   running_thread = thread;
   put_thread(thread);
}

/* Valgrind gives the number of an ended thread to a later one; we do not. */
static void thread_exits(ThreadId thread)
{
   thread_numbers[thread % MAX_THREADS] = 0;
   if (running_thread == thread)
      running_thread = VG_INVALID_THREADID;
}

/* ---- Instrumentation ---- */

#define MAX_RUN_INSTRUCTIONS 4096
#define MAX_RUN_ACCESSES 4096

static UInt runs_defined = 0;

/* The run that is being built. */
static struct {
   Bool open;
   UInt continues;
   Addr address;
   Addr end;
   UInt instructions;
   UInt accesses;
   UChar sizes[MAX_RUN_INSTRUCTIONS];
   RunAccess access[MAX_RUN_ACCESSES];
   /* The address expression of the last access, where a store may still make it a modify. */
   IRExpr* last_load;
} run;

/* The superblock that is being built. */
static struct {
   IRSB* code;
   /* The cursor as it was at the superblock's start, and how much was written since. */
   IRTemp cursor;
   UInt written;
   /* The instruction that the last IMark began. */
   Addr instruction;
   UInt instruction_size;
   Bool started;
} block;

/* What an address is in the program, and in the tool. */
#if VG_WORDSIZE == 8
#define WORD Ity_I64
#define ADD_WORDS Iop_Add64
#define LESS_WORDS Iop_CmpLT64U
#else
#define WORD Ity_I32
#define ADD_WORDS Iop_Add32
#define LESS_WORDS Iop_CmpLT32U
#endif

static IRExpr* constant(Addr value)
{
   return IRExpr_Const(VG_WORDSIZE == 8 ? IRConst_U64(value) : IRConst_U32(value));
}

static IRExpr* assign(IRType type, IRExpr* value)
{
   IRTemp temporary = newIRTemp(block.code->tyenv, type);
   addStmtToIRSB(block.code, IRStmt_WrTmp(temporary, value));
   return IRExpr_RdTmp(temporary);
}

/* Writes `value` where the stream continues. */
static void add_write(IRExpr* value, UInt bytes)
{
   IRExpr* to = IRExpr_RdTmp(block.cursor);
   if (block.written > 0)
      to = assign(WORD, IRExpr_Binop(ADD_WORDS, to, constant(block.written)));
   addStmtToIRSB(block.code, IRStmt_Store(Iend_LE, to, value));
   block.written += bytes;
   tl_assert(block.written < SUPERBLOCK_BYTES);
}

/* Gets the cursor, after making room for all that a superblock can write. */
static void add_superblock_start(void)
{
   IRExpr* cursor =
      assign(WORD, IRExpr_Load(Iend_LE, WORD, constant((Addr)&control->cursor)));
   IRExpr* limit =
      assign(WORD, IRExpr_Load(Iend_LE, WORD, constant((Addr)&control->limit)));
   IRDirty* call = unsafeIRDirty_0_N(0, "next_segment", VG_(fnptr_to_fnentry)(next_segment),
                                     mkIRExprVec_0());
   call->guard = assign(Ity_I1, IRExpr_Binop(LESS_WORDS, limit, cursor));
   addStmtToIRSB(block.code, IRStmt_Dirty(call));
   block.cursor =
      assign(WORD, IRExpr_Load(Iend_LE, WORD, constant((Addr)&control->cursor)))
         ->Iex.RdTmp.tmp;
   block.written = 0;
   block.started = True;
}

static void add_cursor_update(void)
{
   IRExpr* cursor;
   if (block.written == 0)
      return;
   cursor = assign(WORD, IRExpr_Binop(ADD_WORDS, IRExpr_RdTmp(block.cursor),
                                      constant(block.written)));
   addStmtToIRSB(block.code, IRStmt_Store(Iend_LE, constant((Addr)&control->cursor), cursor));
}

static void open_run(Addr address, UInt continues)
{
   run.open = True;
   run.continues = continues;
   run.address = address;
   run.end = address;
   run.instructions = 0;
   run.accesses = 0;
   run.last_load = NULL;
   add_write(IRExpr_Const(IRConst_U32(runs_defined)), 4);
}

static void add_instruction(UInt size)
{
   run.sizes[run.instructions++] = size;
   run.end += size;
   run.last_load = NULL;
}

static void close_run(void)
{
   /* Static: the tool's own stack is small. */
   static UChar body[sizeof(RunHeader) + MAX_RUN_INSTRUCTIONS +
                     MAX_RUN_ACCESSES * sizeof(RunAccess)];
   RunHeader header;
   UInt length;
   if (!run.open)
      return;
   run.open = False;
   header.number = runs_defined++;
   header.continues = run.continues;
   header.address = run.address;
   header.instructions = run.instructions;
   header.accesses = run.accesses;
   VG_(memcpy)(body, &header, sizeof header);
   length = sizeof header;
   VG_(memcpy)(body + length, run.sizes, run.instructions);
   length += run.instructions;
   VG_(memcpy)(body + length, run.access, run.accesses * sizeof run.access[0]);
   length += run.accesses * sizeof run.access[0];
   VG_(addBytesToXA)(definitions, &length, sizeof length);
   VG_(addBytesToXA)(definitions, body, length);
   put_record(RECORD_DEFINE, body, length, NULL, 0);
}

/* Notes an access of the current instruction; `guard` is NULL where it is always made. */
static void add_access(UChar kind, IRExpr* address, UInt size, IRExpr* guard)
{
   RunAccess* access;
   if (!block.started)
      return;
   if (guard != NULL && guard->tag == Iex_Const) {
      if (!guard->Iex.Const.con->Ico.U1)
         return;
      guard = NULL;
   }
   if (!run.open) {
      /* The instruction could be left before this access: what follows is a run of its own. */
      open_run(block.instruction, 1);
      add_instruction(block.instruction_size);
   }
   if (kind == 1 && guard == NULL && run.last_load != NULL &&
       eqIRAtom(run.last_load, address)) {
      access = &run.access[run.accesses - 1];
      if (access->size_bytes == size) {
         access->kind = 2;
         run.last_load = NULL;
         return;
      }
   }
   tl_assert(run.accesses < MAX_RUN_ACCESSES);
   access = &run.access[run.accesses++];
   access->instruction = run.instructions - 1;
   access->size_bytes = size;
   access->kind = kind;
   access->guarded = guard != NULL;
   run.last_load = kind == 0 && guard == NULL ? address : NULL;
   if (VG_WORDSIZE == 4)
      address = assign(Ity_I64, IRExpr_Unop(Iop_32Uto64, address));
   if (guard != NULL)
      address = assign(Ity_I64, IRExpr_ITE(guard, address, IRExpr_Const(IRConst_U64(NOT_MADE))));
   add_write(address, 8);
}

static UInt size_of(IRType type)
{
   /* A one-bit value is stored as nothing on any machine. */
   return type == Ity_I1 ? 1 : sizeofIRType(type);
}

static void instrument_statement(IRStmt* statement)
{
   IRTypeEnv* types = block.code->tyenv;
   switch (statement->tag) {
   case Ist_IMark: {
      Addr address = statement->Ist.IMark.addr;
      block.instruction = address;
      block.instruction_size = statement->Ist.IMark.len;
      if (!block.started)
         add_superblock_start();
      if (run.open && (address != run.end || run.instructions == MAX_RUN_INSTRUCTIONS))
         close_run();
      if (!run.open)
         open_run(address, 0);
      add_instruction(block.instruction_size);
      break;
   }
   case Ist_WrTmp: {
      IRExpr* value = statement->Ist.WrTmp.data;
      if (value->tag == Iex_Load)
         add_access(0, value->Iex.Load.addr, size_of(value->Iex.Load.ty), NULL);
      break;
   }
   case Ist_Store:
      add_access(1, statement->Ist.Store.addr,
                 size_of(typeOfIRExpr(types, statement->Ist.Store.data)), NULL);
      break;
   case Ist_StoreG: {
      IRStoreG* store = statement->Ist.StoreG.details;
      add_access(1, store->addr, size_of(typeOfIRExpr(types, store->data)), store->guard);
      break;
   }
   case Ist_LoadG: {
      IRLoadG* load = statement->Ist.LoadG.details;
      IRType to, from;
      typeOfIRLoadGOp(load->cvt, &to, &from);
      add_access(0, load->addr, size_of(from), load->guard);
      break;
   }
   case Ist_CAS: {
      IRCAS* cas = statement->Ist.CAS.details;
      UInt size = size_of(typeOfIRExpr(types, cas->dataLo));
      add_access(2, cas->addr, cas->dataHi != NULL ? 2 * size : size, NULL);
      break;
   }
   case Ist_LLSC:
      if (statement->Ist.LLSC.storedata == NULL)
         add_access(0, statement->Ist.LLSC.addr,
                    size_of(typeOfIRTemp(types, statement->Ist.LLSC.result)), NULL);
      else
         add_access(1, statement->Ist.LLSC.addr,
                    size_of(typeOfIRExpr(types, statement->Ist.LLSC.storedata)), NULL);
      break;
   case Ist_Dirty: {
      IRDirty* call = statement->Ist.Dirty.details;
      if (call->mFx == Ifx_Read)
         add_access(0, call->mAddr, call->mSize, call->guard);
      else if (call->mFx == Ifx_Write)
         add_access(1, call->mAddr, call->mSize, call->guard);
      else if (call->mFx == Ifx_Modify)
         add_access(2, call->mAddr, call->mSize, call->guard);
      break;
   }
   case Ist_Exit:
      close_run();
      if (block.started)
         add_cursor_update();
      break;
   default:
      break;
   }
}

/* ---- Where new memory lies ---- */

/* Linux since 6.7 aligns private anonymous memory whose length is a multiple of 2 MB to 2 MB, so that it can be
   large pages (mm/mmap.c, __get_unmapped_area; not for 32-bit programs). Valgrind takes the lowest address that is
   free. What decides about large pages is put right: such a request gets the address as its hint. */

#if VG_WORDSIZE == 8

#define LARGE_PAGE_BYTES (2UL << 20)

/* Whether the system call under way has a hint that is ours. */
static Bool hint_is_ours = False;

/* Called before a system call with some of its registers; returns what its first argument shall be. */
static ULong place_memory(ULong call, ULong hint, ULong length_bytes, ULong flags)
{
   const UInt kind = VKI_MAP_ANONYMOUS | VKI_MAP_PRIVATE | VKI_MAP_FIXED;
   Bool found = False;
   Addr start;
   if (call != __NR_mmap || hint != 0 || length_bytes == 0 ||
       length_bytes % LARGE_PAGE_BYTES != 0 ||
       (flags & kind) != (VKI_MAP_ANONYMOUS | VKI_MAP_PRIVATE) ||
       length_bytes + LARGE_PAGE_BYTES < length_bytes)
      return hint;
   start = VG_(am_get_advisory_client_simple)(0, length_bytes + LARGE_PAGE_BYTES, &found);
   if (!found)
      return hint;
   hint_is_ours = True;
   return VG_ROUNDUP(start, LARGE_PAGE_BYTES);
}

static IRExpr* guest_register(Int offset)
{
   return assign(WORD, IRExpr_Get(offset, WORD));
}

static void add_placement(void)
{
   const Int first_argument = offsetof(VexGuestAMD64State, guest_RDI);
   IRTemp placed = newIRTemp(block.code->tyenv, WORD);
   IRDirty* call = unsafeIRDirty_1_N(
      placed, 0, "place_memory", VG_(fnptr_to_fnentry)(place_memory),
      mkIRExprVec_4(guest_register(offsetof(VexGuestAMD64State, guest_RAX)),
                    guest_register(first_argument),
                    guest_register(offsetof(VexGuestAMD64State, guest_RSI)),
                    guest_register(offsetof(VexGuestAMD64State, guest_R10))));
   addStmtToIRSB(block.code, IRStmt_Dirty(call));
   addStmtToIRSB(block.code, IRStmt_Put(first_argument, IRExpr_RdTmp(placed)));
}

/* A system call leaves its arguments as they were. */
static void take_hint_back(ThreadId thread)
{
   const ULong none = 0;
   if (hint_is_ours)
      VG_(set_shadow_regs_area)(thread, 0, offsetof(VexGuestAMD64State, guest_RDI), sizeof none,
                                (const UChar*)&none);
   hint_is_ours = False;
}

#endif

static IRSB* instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                        const VexGuestExtents* extents, const VexArchInfo* host,
                        IRType guest_word, IRType host_word)
{
   Int i;
   tl_assert(guest_word == WORD && host_word == WORD);
   block.code = deepCopyIRSBExceptStmts(in);
   block.started = False;
   block.written = 0;
   run.open = False;
   for (i = 0; i < in->stmts_used; i++) {
      IRStmt* statement = in->stmts[i];
      if (statement == NULL || statement->tag == Ist_NoOp)
         continue;
      instrument_statement(statement);
      addStmtToIRSB(block.code, statement);
   }
   close_run();
   if (block.started)
      add_cursor_update();
#if VG_WORDSIZE == 8
   if (in->jumpkind == Ijk_Sys_syscall)
      add_placement();
#endif
   return block.code;
}

/* ---- Processes ---- */

static void before_fork(ThreadId thread)
{
   forks_made++;
}

/* The second takes its offset in pages, which is 0 here either way. */
#if VG_WORDSIZE == 8
#define MAP_MEMORY __NR_mmap
#else
#define MAP_MEMORY __NR_mmap2
#endif

/* The child must never write into its parent's memory file. */
static void after_fork_in_child(ThreadId thread)
{
   Int descriptor = -1;
   const UInt protection = VKI_PROT_READ | VKI_PROT_WRITE;
   SysRes result;
   Word position = 0;
   UInt old_segments = ring.segment_count;
   SizeT old_bytes = ring_bytes();

   SYSTEM_CALL(__NR_close, channel, 0, 0, 0, 0, 0);
   channel = -1;
   recording = False;
   if (clo_follow_children)
      descriptor = open_channel(VG_(getppid)(), forks_made);
   if (descriptor >= 0 && ring_bytes() == old_bytes && ring.segment_count == old_segments) {
      result = SYSTEM_CALL(MAP_MEMORY, control, old_bytes, protection,
                           VKI_MAP_SHARED | VKI_MAP_FIXED, descriptor, 0);
      tl_assert(!sr_isError(result));
      SYSTEM_CALL(__NR_close, descriptor, 0, 0, 0, 0, 0);
      begin_stream();
      while (position < VG_(sizeXA)(definitions)) {
         UInt length;
         const UChar* start = VG_(indexXA)(definitions, position);
         VG_(memcpy)(&length, start, 4);
         put_record(RECORD_DEFINE, start + 4, length, NULL, 0);
         position += 4 + length;
      }
      put_all_mappings(thread);
      threads_seen = 0;
      VG_(memset)(thread_numbers, 0, sizeof thread_numbers);
      running_thread = thread;
      put_thread(thread);
      return;
   }
   result = SYSTEM_CALL(MAP_MEMORY, control, old_bytes, protection,
                        VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS | VKI_MAP_FIXED, -1, 0);
   tl_assert(!sr_isError(result));
   begin_segment(0);
}

static Bool is_exec(UInt call)
{
   return call == __NR_execve || call == __NR_execveat;
}

static void before_system_call(ThreadId thread, UInt call, UWord* arguments, UInt count)
{
   if (is_exec(call) && recording) {
      put_record(RECORD_EXEC, &forks_made, 4, NULL, 0);
      /* All that happened must be with the reader before this process image is gone. */
      next_segment();
   }
   if (call == __NR_exit_group && recording) {
      const UInt status = arguments[0] & 0xff;
      put_record(RECORD_EXIT, &status, 4, NULL, 0);
   }
}

static void after_system_call(ThreadId thread, UInt call, UWord* arguments, UInt count,
                              SysRes result)
{
#if VG_WORDSIZE == 8
   take_hint_back(thread);
#endif
   if (is_exec(call) && recording)
      put_record(RECORD_EXEC_FAILED, NULL, 0, NULL, 0);
}

/* ---- Regions of interest ---- */

/* Answers the requests of mmulab.h, which a program makes of itself. */
static Bool client_request(ThreadId thread, UWord* arguments, UWord* result)
{
   UInt begins;
   const HChar* name;
   SizeT length = 0;
   if (arguments[0] != MMULAB_REQUEST_REGION_BEGINS && arguments[0] != MMULAB_REQUEST_REGION_ENDS)
      return False;
   *result = 0;
   begins = arguments[0] == MMULAB_REQUEST_REGION_BEGINS;
   name = (const HChar*)arguments[1];
   while (length < MAX_REGION_NAME_BYTES &&
          VG_(am_is_valid_for_client)((Addr)name + length, 1, VKI_PROT_READ) && name[length] != 0)
      length++;
   put_record(RECORD_MARK, &begins, sizeof begins, name, length);
   return True;
}

/* ---- The tool ---- */

static Bool process_option(const HChar* argument)
{
   if (VG_STR_CLO(argument, "--channel", clo_channel)) {
   } else if (VG_BOOL_CLO(argument, "--follow-children", clo_follow_children)) {
   } else
      return False;
   return True;
}

static void print_usage(void)
{
   VG_(printf)("    --channel=NAME             abstract socket of the process that reads\n"
               "    --follow-children=no|yes   record forked and loaded programs too [no]\n");
}

static void print_debug_usage(void)
{
   VG_(printf)("    (none)\n");
}

static void after_options(void)
{
   Int descriptor;
   SysRes result;
   if (clo_channel == NULL) {
      VG_(umsg)("this tool is started by `mmulab record`; it has nobody to write to\n");
      VG_(exit)(2);
   }
   definitions = VG_(newXA)(VG_(malloc), "mmulab.definitions", VG_(free), 1);
   reserved = VG_(newXA)(VG_(malloc), "mmulab.reserved", VG_(free), sizeof(Range));
   descriptor = open_channel(0, 0);
   if (descriptor < 0) {
      VG_(umsg)("cannot reach the recording process\n");
      VG_(exit)(2);
   }
   result = VG_(am_shared_mmap_file_float_valgrind)(
      ring_bytes(), VKI_PROT_READ | VKI_PROT_WRITE, descriptor, 0);
   if (sr_isError(result)) {
      VG_(umsg)("cannot map the recording's memory\n");
      VG_(exit)(2);
   }
   SYSTEM_CALL(__NR_close, descriptor, 0, 0, 0, 0, 0);
   control = (volatile Control*)sr_Res(result);
   begin_stream();
}

static void finish(Int exit_code)
{
   if (recording)
      hand_over_segment();
}

static void before_options(void)
{
   VG_(details_name)("mmulab");
   VG_(details_version)(NULL);
   VG_(details_description)("records instruction blocks and data addresses");
   VG_(details_copyright_author)("Copyright (C) 2026, and GNU GPL'd, by the mmulab authors.");
   VG_(details_bug_reports_to)("the mmulab project");
   VG_(details_avg_translation_sizeB)(320);
   VG_(basic_tool_funcs)(after_options, instrument, finish);
   VG_(needs_command_line_options)(process_option, print_usage, print_debug_usage);
   VG_(needs_client_requests)(client_request);
   VG_(needs_syscall_wrapper)(before_system_call, after_system_call);
   VG_(track_start_client_code)(start_client_code);
   VG_(track_pre_thread_ll_exit)(thread_exits);
   VG_(track_new_mem_mmap)(new_mapping);
   VG_(track_new_mem_brk)(new_heap);
   VG_(track_copy_mem_remap)(moved_mapping);
   VG_(track_change_mem_mprotect)(protect_mapping);
   VG_(track_die_mem_munmap)(end_mapping);
   VG_(track_die_mem_brk)(end_mapping);
   VG_(atfork)(before_fork, NULL, after_fork_in_child);
   /* VEX would otherwise run the second half of `a && b` before it knows that the first holds, and
      we would count instructions that the processor does not execute. */
   VG_(clo_vex_control).guest_chase = False;
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
