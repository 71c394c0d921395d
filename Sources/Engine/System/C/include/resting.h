// Programs that run for this process, and threads of it: whether they work, or can only wait for somebody to write to them.
#pragma once

#include <stdint.h>
#include <sys/types.h>

/// Returns whether there is any. Cheap if there never was one.
int linux_programs_run(void);
/// Returns whether any of them works: it does unless all its threads, and those of all that it has started, sleep until somebody writes
/// into a pipe that this process or one of them holds. Cheap if there never was a program.
int linux_programs_work(void);
/// Returns whether all threads of one process, and of all that it has started, sleep so.
int linux_process_rests(int process);
/// Calls `each` with a line for each thread of a program that works: the process, its words, and the system call that it is in.
void linux_working_programs(void *context, void (*each)(void *context, const char *line));
/// Writes the system call that a thread of this process is in, as "read of /tmp/fifo"; "" if it computes. `size` bytes at most.
void linux_call_of_thread(int thread, char *text, int size);

/// Returns whether a thread of this process waits in a system call, and how often it has begun to; -1 if there is no such thread.
int linux_thread_rests(int thread, long *switches);
/// Returns the descriptor that a thread of this process sleeps in reading, with no limit to its patience; -1: it does something else.
int linux_read_by_thread(int thread);

/// Returns whether a program that was found at rest, in the last call of linux_programs_work, has this pipe open.
int linux_is_pipe_of_programs(dev_t device, ino_t number);
/// Returns whether programs were found, all of them at rest.
int linux_all_programs_rest(void);

/// Called by threads of this library's own, when they begin and when they end.
void linux_count_thread(int difference);
/// Returns how many threads of this process nobody has counted: those of C modules.
int linux_uncounted_threads(void);
