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
  int leads_session;         ///< it leaves the terminal that we have
  int dies_with_us;          ///< it is killed when this process ends, in whatever way
  const void *owner;         ///< it is not to outlive this, an address of whatever kind: see linux_end_programs; or NULL
  int foreground;            ///< a descriptor of our terminal, whose keys its group gets before it begins; -1: none
} linux_program;

/// Starts it, in a process group of its own. Returns 0 or an errno. Any thread may call it.
int linux_start_program(const linux_program *program, int *pid);

/// Why no program can be watched on this system, an errno: ENOSYS before Linux 5.3, or EPERM in some sandboxes; 0 if one can.
int linux_refuses_to_watch_programs(void);
/// Whether somebody goes on in the group that a program has led which has been waited for; that is noted of an owned one. Not of a group that
/// has got the number since.
int linux_group_is_left(int pid);
/// It has ended, has been waited for, and has left nobody.
void linux_disown_program(int pid);
/// The groups of an owner's programs, of all for NULL, get SIGTERM, and SIGKILL if they are there a second later. Waits until they
/// have ended. Once a program with an owner was started, it is called when the process exits, too.
void linux_end_programs(const void *owner);
/// Whether it has ended: 0 no, 1 with status `*number`, 2 by signal `*number`, -1 there is no such child.
int linux_program_ended(int pid, int *number);
/// Whether a signal has stopped it since it was last asked.
int linux_program_has_stopped(int pid);
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
