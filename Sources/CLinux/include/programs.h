// Child processes, and the terminals that they may have.
#pragma once

#include <stddef.h>

/// How a program is to be started.
typedef struct {
  char *const *arguments;    ///< with NULL at the end; the first is looked up in PATH
  char *const *environment;  ///< NULL: inherited
  const char *directory;     ///< NULL: inherited
  int descriptors[4];        ///< what it gets as 0 to 3; -1: /dev/null, for 3 nothing
  const char *terminal;      ///< it leads a session with this terminal, which it gets as 0 to 2; or NULL
} linux_program;

/// Starts it, in a process group of its own. Returns 0 or an errno.
int linux_start_program(const linux_program *program, int *pid);
/// Whether it has ended: 0 no, 1 with status `*number`, 2 by signal `*number`, -1 there is no such child.
int linux_program_ended(int pid, int *number);
/// A descriptor that becomes readable when it ends. -1 and errno: there is none.
int linux_watch_program(int pid);

/// A pipe, or a pair of sockets, whose ends close on exec and have numbers beyond those that programs get. -1 and errno: the
/// system has none.
int linux_make_pipe(int ends[2], int two_way);
/// The master of a new terminal, and its name. -1 and errno: there is none.
int linux_open_terminal(int rows, int columns, char *name, size_t size);
/// The other side of a terminal, by its name. -1 and errno: there is none.
int linux_open_slave(const char *name);
/// -1 and errno: it is no terminal.
int linux_resize_terminal(int master, int rows, int columns);
