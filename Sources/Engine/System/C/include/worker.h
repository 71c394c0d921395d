// The process in which tests run.
#pragma once

/// Forks. The original process becomes the keeper of the child, in which this function returns. The keeper ends with
/// the child's status, but only after all programs that the child and its programs have started have ended. On SIGTERM,
/// and when its parent ends, the keeper ends them all. Descriptor 3, the channel to the runner, moves to a number that
/// scripts and programs do not use. The process prints line by line, and SIGPIPE does not kill it.
void linux_become_worker(void);
/// Restarts this process with addresses that are the same in each run. Returns whether the addresses are fixed; 0 if
/// the system forbids it.
int linux_fix_addresses(void);
/// Return the descriptor of the channel, and a duplicate of the standard output from the start.
int linux_worker_channel(void);
int linux_worker_output(void);
/// Sets the function that is called last when a signal, such as the keeper's, is about to end the process; NULL for
/// none. The function runs on a large stack.
void linux_set_last_words(void (*words)(void));
/// Makes descriptor 1 the standard output again. Returns whether the script had replaced it.
int linux_restore_output(void);

/// Remembers the current directory, the environment, the locale and the ignored signals.
void linux_note_state(void);
/// Restores the remembered state, and calls `each` with a text for each change.
void linux_restore_state(void *context, void (*each)(void *context, const char *change));
/// Sets the time zone; NULL for that of the system.
void linux_set_zone(const char *name);

/// Begins to count the time of a test. Only on the main thread.
void linux_begin_count(void);
/// Returns the time of the test so far, in seconds: processor time of all threads, and time in which the main thread
/// really waited. Time without a free processor does not count, and neither does the main thread's sleep while
/// simulated time moves. Only on the main thread; safe in a signal handler.
double linux_seconds_taken(void);
/// Notes that the main thread begins or stops sleeping while simulated time moves and other loops work.
void linux_count_rest(int begins);
