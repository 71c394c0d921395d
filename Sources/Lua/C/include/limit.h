// Limits of processor time, and of the time for which a callback may hold its loop. Call these functions on the thread
// of the state.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cl_state;
/// Limits the memory of the state.
void cl_limit_memory(struct cl_state *state, size_t bytes);
/// Interrupts the running Lua code when this thread has used this many seconds of processor time from now on, and again
/// after each further second. Raises the value of `cancelled` if `cancels` is set, otherwise the text: as an error at
/// first, and as an interruption later. `reached` is called before, with the number of times. Returns 0 or an errno.
int cl_limit_processor(struct cl_state *state, double seconds, int cancels,
                       void (*reached)(struct cl_state *state, int times));
/// Returns the text of the error: "limit: 2 s of processor time".
const char *cl_processor_limit(void);
/// Prepares `cl_report_held` for this thread, and returns the thread. `is_in_run` says whether the loop runs.
uintptr_t cl_limit_callbacks(struct cl_state *state, double seconds, int (*is_in_run)(struct cl_state *state));
/// Raises "limit: held the loop for 2 s" in the running callback of a thread. May be called on any thread.
void cl_report_held(uintptr_t thread);
/// Ends all limits of this thread.
void cl_end_limits(struct cl_state *state);
