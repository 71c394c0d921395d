// Child processes and their terminals.
#pragma once

#include <stddef.h>

/// The settings with which a program is started.
typedef struct {
  char *const *arguments;    ///< with NULL at the end; the first is looked up in PATH
  char *const *environment;  ///< NULL: inherited
  const char *directory;     ///< NULL: inherited
  int descriptors[4];        ///< the program's descriptors 0 to 3; -1: /dev/null, or closed for 3
  const char *terminal;      ///< leads a session with this terminal as descriptors 0 to 2; or NULL
  int leads_session;         ///< leads a session without a terminal
  int dies_with_us;          ///< is killed when this process ends in any way
  const void *owner;         ///< the address of the program's owner, for linux_end_programs; or NULL
  int foreground;            ///< a descriptor of our terminal; the program's group gets the terminal first; or -1
} linux_program;

/// Starts a program in its own process group. Returns 0 or an errno. Safe on any thread.
int linux_start_program(const linux_program *program, int *pid);

/// Returns 0 if programs can be watched on this system; otherwise an errno: ENOSYS before Linux 5.3, or EPERM in some
/// sandboxes.
int linux_refuses_to_watch_programs(void);
/// Returns whether the group of a program that was waited for still has processes. A newer group with the same number
/// does not count. After this call, an owned program counts as ended, but stays in the list as long as its group may
/// have processes.
int linux_group_is_left(int pid);
/// Forgets a program that has ended, was waited for, and has left no processes in its group.
void linux_disown_program(int pid);
/// Sends SIGTERM to the groups of an owner's programs; if `owner` is NULL, to the groups of all programs with an owner.
/// Sends SIGKILL to groups that still exist a second later. Waits until these programs have ended. Once a program with
/// an owner was started, exit(3) calls this function for all owners.
void linux_end_programs(const void *owner);
/// Returns how a program ended: 0 if it runs, 1 with status `*number`, 2 by signal `*number`, -1 if there is no such
/// child.
int linux_program_ended(int pid, int *number);
/// Returns whether a signal has stopped the program since the last call.
int linux_program_has_stopped(int pid);
/// Returns a descriptor that becomes readable when the program ends. -1 and errno on failure.
int linux_watch_program(int pid);

/// Makes a pipe or a pair of sockets. Both ends close on exec and have numbers above those that programs get. -1 and
/// errno on failure.
int linux_make_pipe(int ends[2], int two_way);
/// Opens a new pseudo-terminal. Returns the master, and writes the terminal's path to `name`. -1 and errno on failure.
int linux_open_terminal(int rows, int columns, char *name, size_t size);
/// Opens the side of a pseudo-terminal for programs, by its name. -1 and errno on failure.
int linux_open_slave(const char *name);
/// Sets the size of a terminal. -1 and errno if the descriptor is not a terminal.
int linux_resize_terminal(int master, int rows, int columns);
