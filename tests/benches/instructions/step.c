// Counts the instructions that the threads of a process execute in user mode, one by one (ptrace). Linux on x86-64.
//
//   step PID PROGRAM THREAD…
//
// counts in the threads of these names until SIGTERM, and leaves the process running.
// Prints the line `SECONDS` with their number, and a line `THREAD WHERE OFFSET COUNT` for each address that was executed: WHERE is `program` for the text of PROGRAM (OFFSET as in its
// symbol table), `guest` for code that the process made or mapped from a cache, `library` for the rest. A thread named `epoch` is held: its
// clock would interrupt guests, which take a thousand times as long as else.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 512, NAMES = 32 };

static struct { pid_t id; int name; int is_held; unsigned long last; } threads[THREADS];
static int thread_count;
// Counts by name of the thread and offset in the program.
static struct { char name[32]; unsigned *counts; unsigned long guest, library; } names[NAMES];
static int name_count;
static unsigned long text_start, text_end, load_base;
static struct { unsigned long start, end; } libraries[256];
static int library_count;
static volatile sig_atomic_t is_over;

static void end(int signal) { (void)signal; is_over = 1; }

static void read_maps(pid_t pid, const char *program) {
  char path[64], line[4096];
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  FILE *maps = fopen(path, "r");
  if (!maps) { perror(path); exit(1); }
  while (fgets(line, sizeof line, maps)) {
    unsigned long start, stop, offset;
    char rights[5], name[4096] = "";
    sscanf(line, "%lx-%lx %4s %lx %*s %*s %4095s", &start, &stop, rights, &offset, name);
    if (!strcmp(name, program)) {
      if (offset == 0) load_base = start;
      if (rights[2] == 'x') { text_start = start; text_end = stop; }
    } else if (rights[2] == 'x' && (strstr(name, ".so") || name[0] == '[') && library_count < 256) {
      libraries[library_count].start = start;
      libraries[library_count++].end = stop;
    }
  }
  fclose(maps);
  if (!text_end) { fprintf(stderr, "%s is not the program of the process\n", program); exit(1); }
}

static void add_thread(pid_t pid, pid_t id, char **wanted) {
  char path[96], name[32] = "";
  snprintf(path, sizeof path, "/proc/%d/task/%d/comm", pid, id);
  FILE *file = fopen(path, "r");
  if (!file || thread_count == THREADS) return;
  if (fgets(name, sizeof name, file)) name[strcspn(name, "\n")] = 0;
  fclose(file);
  for (char *at = name; *at; at++) if (*at == ' ') *at = '_';
  int is_held = !strcmp(name, "epoch");
  while (*wanted && strcmp(*wanted, name)) wanted++;
  if (!*wanted && !is_held) return;
  int found = 0;
  while (found < name_count && strcmp(names[found].name, name)) found++;
  if (found == name_count) {
    if (name_count == NAMES) return;
    strcpy(names[name_count].name, name);
    names[name_count++].counts = calloc(text_end - text_start, sizeof(unsigned));
  }
  threads[thread_count].id = id;
  threads[thread_count].name = found;
  threads[thread_count++].is_held = is_held;
}

static void count(int name, unsigned long at) {
  if (at >= text_start && at < text_end) { names[name].counts[at - text_start]++; return; }
  for (int library = 0; library < library_count; library++)
    if (at >= libraries[library].start && at < libraries[library].end) { names[name].library++; return; }
  names[name].guest++;
}

// Whether SIGTRAP waits to be delivered to a thread.
static int has_trap(pid_t pid, pid_t id) {
  char path[96], line[256];
  unsigned long pending = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid, id);
  FILE *file = fopen(path, "r");
  if (!file) return 0;
  while (fgets(line, sizeof line, file)) if (sscanf(line, "SigPnd: %lx", &pending) == 1) break;
  fclose(file);
  return pending >> (SIGTRAP - 1) & 1;
}

int main(int argc, char **argv) {
  if (argc < 4) { fprintf(stderr, "usage: step PID PROGRAM THREAD…\n"); return 2; }
  pid_t pid = atoi(argv[1]);
  read_maps(pid, argv[2]);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *tasks = opendir(path);
  for (struct dirent *task; (task = readdir(tasks));)
    if (task->d_name[0] != '.') add_thread(pid, atoi(task->d_name), argv + 3);
  for (int thread = 0; thread < thread_count; thread++) {
    ptrace(PTRACE_SEIZE, threads[thread].id, 0, 0);
    ptrace(PTRACE_INTERRUPT, threads[thread].id, 0, 0);
  }
  // SIGTERM ends the count: it interrupts the wait.
  struct sigaction action = {.sa_handler = end};
  sigaction(SIGTERM, &action, 0);
  struct timespec began, ended;
  clock_gettime(CLOCK_MONOTONIC, &began);
  for (int status, id; !is_over && ((id = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR);) {
    int thread = 0;
    while (thread < thread_count && threads[thread].id != id) thread++;
    if (id <= 0 || thread == thread_count || !WIFSTOPPED(status)) continue;
    if (threads[thread].is_held) continue;
    int signal = WSTOPSIG(status), is_event = status >> 16;
    if (signal == SIGTRAP && !is_event) {
      // A copy by one repeated instruction stops after each repetition.
      unsigned long at = ptrace(PTRACE_PEEKUSER, id, offsetof(struct user, regs.rip), 0);
      if (at != threads[thread].last) count(threads[thread].name, at);
      threads[thread].last = at;
      signal = 0;
    } else if (is_event) {
      signal = 0;
    }
    ptrace(PTRACE_SINGLESTEP, id, 0, signal);
  }
  clock_gettime(CLOCK_MONOTONIC, &ended);
  for (int thread = 0, status; thread < thread_count; thread++) {
    pid_t id = threads[thread].id;
    // A thread that is held has stopped already.
    if (!threads[thread].is_held) {
      ptrace(PTRACE_INTERRUPT, id, 0, 0);
      waitpid(id, &status, __WALL);
      // The trap of the last step would end the process.
      if (status >> 16 && has_trap(pid, id)) {
        ptrace(PTRACE_CONT, id, 0, 0);
        waitpid(id, &status, __WALL);
      }
    }
    ptrace(PTRACE_DETACH, id, 0, 0);
  }
  printf("SECONDS %f\n", ended.tv_sec - began.tv_sec + (ended.tv_nsec - began.tv_nsec) / 1e9);
  for (int name = 0; name < name_count; name++) {
    for (unsigned long at = 0; at < text_end - text_start; at++)
      if (names[name].counts[at]) printf("%s program %lx %u\n", names[name].name, at + text_start - load_base, names[name].counts[at]);
    printf("%s guest 0 %lu\n%s library 0 %lu\n", names[name].name, names[name].guest, names[name].name, names[name].library);
  }
  return 0;
}
