// The programs that a process has started.
#pragma once

#include <stddef.h>
#include <sys/types.h>

/// Sets the process that becomes the parent of orphans: of programs whose parent, a program of this process, has ended.
/// 0 if there is no such process.
void linux_set_keeper(int process);
/// Finds the processes that a process has started or inherited and not waited for. Returns their number.
int linux_children_of(int process, int *found, int most);
/// Finds the programs of this process: its children, and orphans that the keeper has inherited from them. Returns their
/// number.
int linux_programs(int *found, int most);
/// Returns whether a process is alive.
int linux_process_runs(int process);
/// Reads a small file, such as one of /proc, and adds a NUL. Returns the file's length; -1 if there is no such file.
ssize_t linux_read_file(const char *path, char *text, size_t size);
