// Limits of processor time, and of the time for which a callback may hold its loop. Call these functions on the thread
// of the state.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cl_state;
/// Limits the memory of the state.
void cl_limit_memory(struct cl_state *state, size_t bytes);
/// Limits the total memory of this state and of all states that call cl_share_memory.
void cl_limit_all_memory(struct cl_state *state, size_t bytes);
/// Counts the state's memory in the limit of cl_limit_all_memory, if there is one.
void cl_share_memory(struct cl_state *state);
/// Stops counting the state with the others. Must be called before the state is freed.
void cl_end_sharing(struct cl_state *state);
/// Interrupts the running Lua code when this thread has used this many seconds of processor time from now on, and again
/// after each further second. Raises the value of `cancelled`. Before that, calls `reached` with the number of
/// interruptions so far. Returns 0 or an errno.
int cl_limit_processor(struct cl_state *state, double seconds, void (*reached)(struct cl_state *state, int times));
/// Like cl_limit_processor, for the main state and the processor time of the whole process. Raises the text of the
/// limit: as an error at first, and as an interruption later. If no Lua code runs, notes CL_WISH_END. If the program
/// goes on regardless, ends the process.
int cl_limit_all_processor(struct cl_state *state, double seconds, void (*reached)(struct cl_state *state, int times));
/// Returns whether the loop of the main state sleeps. Async-signal-safe.
int cl_is_main_waiting(void);
/// Returns the text of the error: "limit: 2 s of processor time".
const char *cl_processor_limit(void);
/// Prepares `cl_report_held` for this thread, and returns the thread. `is_in_run` returns whether the loop runs.
uintptr_t cl_limit_callbacks(struct cl_state *state, double seconds, int (*is_in_run)(struct cl_state *state));
/// Raises "limit: held the loop for 2 s" in the running callback of a thread. May be called on any thread.
void cl_report_held(uintptr_t thread);
/// Ends all limits of this thread.
void cl_end_limits(struct cl_state *state);
