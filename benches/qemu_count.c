/* A QEMU plugin that counts the guest's instructions and writes the number to stderr at the end.
 *
 * Blocks are counted as they are entered, so that one which an interrupt or fault leaves early counts in
 * full. Debian has no header for plugins; the interface is that of QEMU's "TCG Plugins", version 1.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#define EXPORTED __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
enum inline_operation { ADD_U64 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, enum inline_operation,
                                              void *counter, uint64_t addend);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);

extern EXPORTED int qemu_plugin_version;
EXPORTED int qemu_plugin_version = 1;

static uint64_t instructions;

static void translated(plugin_id id, struct qemu_plugin_tb *block)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &instructions,
                                             qemu_plugin_tb_n_insns(block));
}

static void ended(plugin_id id, void *data)
{
    (void)id, (void)data;
    fprintf(stderr, "instructions: %" PRIu64 "\n", instructions);
}

EXPORTED int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);
int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
