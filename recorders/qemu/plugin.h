/* The part of QEMU's interface for plugins that the recorder uses, as docs/devel/tcg-plugins.rst and
   the header of QEMU 7.2 define it; Debian has no package with that header.

   SPDX-License-Identifier: GPL-2.0-or-later */

#ifndef MMULAB_PLUGIN_H
#define MMULAB_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* Plugins for version 0 are what QEMU from 4.2 on loads; up to 8.2 it knows inline operations. */
#define PLUGIN_VERSION 1

typedef uint64_t PluginId;
typedef uint32_t MemoryInformation;

/* The beginning of what QEMU says of itself. */
typedef struct {
   const char* target_name;
} PluginInformation;

enum { CALLBACK_NO_REGISTERS = 0 };
enum { MEMORY_READ_WRITE = 3 };
enum { INLINE_ADD_U64 = 0 };

struct qemu_plugin_tb;
struct qemu_plugin_insn;

extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb* block);
extern struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* block,
                                                        size_t index);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn* instruction);
extern void* qemu_plugin_insn_haddr(const struct qemu_plugin_insn* instruction);
extern unsigned qemu_plugin_mem_size_shift(MemoryInformation information);
extern bool qemu_plugin_mem_is_store(MemoryInformation information);

extern void qemu_plugin_register_vcpu_init_cb(PluginId, void (*)(PluginId, unsigned thread));
extern void qemu_plugin_register_vcpu_exit_cb(PluginId, void (*)(PluginId, unsigned thread));
extern void qemu_plugin_register_vcpu_tb_trans_cb(PluginId,
                                                  void (*)(PluginId, struct qemu_plugin_tb*));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb*,
                                                 void (*)(unsigned thread, void* data),
                                                 int registers, void* data);
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn*, int operation,
                                                       void* counter, uint64_t value);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn*,
                                             void (*)(unsigned thread, MemoryInformation,
                                                      uint64_t address, void* data),
                                             int registers, int kinds, void* data);
extern void qemu_plugin_register_vcpu_syscall_cb(
   PluginId, void (*)(PluginId, unsigned thread, int64_t number, uint64_t, uint64_t, uint64_t,
                      uint64_t, uint64_t, uint64_t, uint64_t, uint64_t));
extern void qemu_plugin_register_vcpu_syscall_ret_cb(PluginId,
                                                     void (*)(PluginId, unsigned thread,
                                                              int64_t number, int64_t result));
extern void qemu_plugin_register_atexit_cb(PluginId, void (*)(PluginId, void* data), void* data);

#endif
