// The process in which tests run.
#pragma once

/// From now on, this process is a child of the one that was, its keeper. That one ends as this one does, but not before all
/// programs that this one has started, and those that they have left behind. SIGTERM, and the end of the keeper's own parent, end
/// them all. The channel to the runner, which is descriptor 3, goes out of the way of scripts and programs. What the process
/// prints comes out line by line; SIGPIPE does not kill it.
void linux_become_worker(void);
/// Begins this process anew, so that its addresses are the same in each run. Returns whether they are: not where the system forbids it.
int linux_fix_addresses(void);
/// The channel; and what the standard output was at the beginning.
int linux_worker_channel(void);
int linux_worker_output(void);
/// Makes a function the last act when a signal, the keeper's among them, is about to end the process; NULL: none. It has a large stack.
void linux_set_last_words(void (*words)(void));
/// Makes descriptor 1 the standard output again; returns whether it was something else.
int linux_restore_output(void);

/// Notes the current directory, the environment, the locale and the signals that are ignored.
void linux_note_state(void);
/// Puts them back; tells what had changed.
void linux_restore_state(void *context, void (*each)(void *context, const char *change));
/// Sets the time zone, or with NULL leaves it to the system.
void linux_set_zone(const char *name);

/// Begins to count what a test takes, on the main thread.
void linux_begin_count(void);
/// Returns the seconds that it has taken until now: processor time of all threads, and time in which the main thread really waited. Time in
/// which that had no processor does not count, and neither does its sleep while simulated time moves. On the main thread, in a signal
/// handler, too.
double linux_seconds_taken(void);
/// The main thread begins, or ends, to sleep while simulated time moves: others have their turns.
void linux_count_rest(int begins);
