// Whether the programs of this process, and its threads, work or can only wait for data from others.
#pragma once

#include <stdint.h>
#include <sys/types.h>

/// Returns whether this process has programs. Cheap if the process never had a program.
int linux_programs_run(void);
/// Returns whether any program works. A program rests if all its threads, and those of all programs that it has
/// started, sleep until data is written into a pipe that this process or one of these programs has open. Cheap if this
/// process never had a program.
int linux_programs_work(void);
/// Sets whether a program is the server of a test, which goes on in real time: `linux_programs_work` then ignores it
/// and all that it starts. With 0 the program counts again. Returns 0 if there are too many servers.
int linux_note_server(int process, int is_server);
/// Returns whether a process rests: all its threads, and those of all programs that it has started, wait for data in
/// such a pipe.
int linux_process_rests(int process);
/// Calls `each` with a line for each working thread of a program: the process, its command line, and its current system
/// call.
void linux_working_programs(void *context, void (*each)(void *context, const char *line));
/// Writes the current system call of a thread of this process, such as "read of /tmp/fifo", in at most `size` bytes; ""
/// if it computes.
void linux_call_of_thread(int thread, char *text, int size);

/// Returns whether a thread of this process waits in a system call, and sets the number of its waits so far. -1 if
/// there is no such thread.
int linux_thread_rests(int thread, long *switches);
/// Returns the descriptor from which a thread of this process reads without a timeout; -1 if it does something else.
int linux_read_by_thread(int thread);

/// Returns whether a program that rested in the last call of linux_programs_work has this pipe open.
int linux_is_pipe_of_programs(dev_t device, ino_t number);
/// Returns whether the last call of linux_programs_work found programs, all of which rested.
int linux_all_programs_rest(void);

/// Counts the threads of this library: each calls it with 1 when it begins and with -1 when it ends.
void linux_count_thread(int difference);
/// Returns the number of threads of this process that were not counted: those of C modules.
int linux_uncounted_threads(void);
