// A plugin of QEMU that counts the instructions of all threads of a program, and prints the count when the program ends. QEMU's packages
// lack the header of its plugin interface (version 1), so the part that is used is declared here.

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORTED __attribute__((visibility("default")))

struct qemu_plugin_tb;
typedef uint64_t plugin_id;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int flags, void *data);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);

static atomic_ullong total;

static void on_block(unsigned cpu, void *instructions) {
  (void)cpu;
  atomic_fetch_add_explicit(&total, (uintptr_t)instructions, memory_order_relaxed);
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, 0, (void *)(uintptr_t)qemu_plugin_tb_n_insns(block));
}

static void on_exit_of_program(plugin_id id, void *data) {
  (void)id;
  (void)data;
  fprintf(stderr, "instructions: %llu\n", (unsigned long long)total);
}

EXPORTED int qemu_plugin_version = 1;

EXPORTED int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
  (void)info;
  (void)argc;
  (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  qemu_plugin_register_atexit_cb(id, on_exit_of_program, NULL);
  return 0;
}
