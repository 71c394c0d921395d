// The programs that a process has started.
#define _GNU_SOURCE
#include "children.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t linux_read_file(const char *path, char *text, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t count = read(fd, text, size - 1);
  close(fd);
  text[count > 0 ? count : 0] = 0;
  return count;
}

// Returns the state of a process, as ps(1) shows it, and sets its parent; 0 if there is no such process.
static char state_of(int pid, int *parent) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  if (linux_read_file(path, text, sizeof text) <= 0) return 0;
  char *rest = strrchr(text, ')');
  char state = 0;
  if (!rest || sscanf(rest + 1, " %c %d", &state, parent) != 2) return 0;
  return state;
}

int linux_process_runs(int pid) {
  int parent = 0;
  char state = state_of(pid, &parent);
  return state && state != 'Z' && state != 'X';
}

int linux_children_of(int pid, int *found, int most) {
  char path[64], text[16384];
  int count = 0;
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *tasks = opendir(path);
  if (!tasks) return 0;
  struct dirent *entry;
  int is_known = 0;
  while ((entry = readdir(tasks))) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%.12s/children", pid, entry->d_name);
    if (linux_read_file(path, text, sizeof text) < 0) continue;
    is_known = 1;
    char *at = text, *end;
    for (long number; (number = strtol(at, &end, 10)) > 0 && end != at; at = end)
      if (count < most) found[count++] = (int)number;
  }
  closedir(tasks);
  if (is_known) return count;
  // This kernel has no /proc/…/children file: look for the children among all processes.
  DIR *all = opendir("/proc");
  if (!all) return 0;
  while ((entry = readdir(all))) {
    int number = atoi(entry->d_name), parent = 0;
    if (number > 0 && state_of(number, &parent) && parent == pid && count < most) found[count++] = number;
  }
  closedir(all);
  return count;
}

static int keeper;

void linux_set_keeper(int process) { keeper = process; }

int linux_programs(int *found, int most) {
  int all[1024], count = 0;
  int total = linux_children_of(getpid(), all, 512);
  if (keeper) total += linux_children_of(keeper, all + total, 1024 - total);
  for (int i = 0; i < total; i++)
    if (all[i] != getpid() && linux_process_runs(all[i]) && count < most) found[count++] = all[i];
  return count;
}
