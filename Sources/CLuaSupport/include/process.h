// Programs, terminals and the watchdog: what the test runner needs of the system, and Swift cannot call.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// How a program is to be started.
typedef struct cl_program {
  char *const *arguments;    ///< with NULL at the end; the first is looked up in PATH
  char *const *environment;  ///< NULL: inherited
  const char *directory;     ///< NULL: inherited
  int descriptors[4];        ///< what it gets as 0 to 3; -1: /dev/null, for 3 nothing
  const char *terminal;      ///< it leads a session with this terminal, which it gets as 0 to 2; or NULL
} cl_program;

/// Starts it, in a process group of its own. Returns 0 or an errno.
int cl_start_program(const cl_program *program, int *pid);
/// Whether it has ended: 0 no, 1 with status `*number`, 2 by signal `*number`, -1 there is no such child.
int cl_program_ended(int pid, int *number);
/// A descriptor that becomes readable when it ends, or minus an errno.
int cl_watch_program(int pid);
/// Whether there is a child that runs.
int cl_has_children(void);

/// A pipe whose ends close on exec and have numbers beyond those that programs get. Returns 0 or an errno.
int cl_make_pipe(int ends[2], int two_way);
/// The master of a new terminal, and its name; minus an errno.
int cl_open_terminal(int rows, int columns, char *name, size_t size);
int cl_resize_terminal(int master, int rows, int columns);
int cl_set_nonblocking(int fd);

/// Marks which of the descriptors 0 to count - 1 are open.
void cl_open_descriptors(unsigned char *open, int count);

/// The process dies with the one that started it; what it prints comes out line by line; SIGPIPE does not kill it.
void cl_become_worker(void);

struct cl_host;
/// After so many real seconds, code that runs in Lua gets the error "the test takes too long", again every second, and
/// `notify` is called in the signal handler. 0 seconds: off.
void cl_watch(struct cl_host *host, double seconds, void (*notify)(void), int (*is_waiting)(void));
/// Whether the time is over.
int cl_time_is_over(void);

/// Counts how often each line of Lua runs, in this state's coroutines made from now on too.
void cl_count_lines(struct cl_host *host, int on);
/// Calls `each` for each line counted, then forgets them.
void cl_take_lines(void *context, void (*each)(void *context, const char *source, int line, uint64_t count));
