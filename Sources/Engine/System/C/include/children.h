// The programs that a process has started.
#pragma once

#include <stddef.h>
#include <sys/types.h>

/// Sets the process that inherits the programs that this process's programs leave behind; 0: none.
void linux_set_keeper(int process);
/// The processes, alive or not yet waited for, that one has begun, or inherited from others.
int linux_children_of(int process, int *found, int most);
/// The programs that run for this process: its children, and those that they have left to the keeper. Returns how many.
int linux_programs(int *found, int most);
/// Returns whether a process is alive.
int linux_process_runs(int process);
/// Reads a small file, as those of /proc are. Returns its length, with a NUL behind it; -1: there is none.
ssize_t linux_read_file(const char *path, char *text, size_t size);
