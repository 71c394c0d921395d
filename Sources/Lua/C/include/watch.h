// Services for the test runner: a time limit for tests, and a count of the runs of each line.
#pragma once

#include <stdint.h>

struct cl_state;
/// Raises an error in Lua code that runs a loop in which nothing can happen any more.
void cl_interrupt_stuck(struct cl_state *state);
/// After this many real seconds, raises "the test takes too long" in the running Lua code, again every second, and
/// calls `notify` in the signal handler. 0 seconds turns the limit off.
void cl_watch(struct cl_state *state, double seconds, void (*notify)(void), int (*is_waiting)(void),
              double (*left)(void));
/// After this many real seconds, raises the value that `state->cancelled` anchors in the running Lua code, again every
/// second. 0 seconds turns the limit off. Does nothing while a test is watched. Returns whether the previous limit had
/// been reached.
int cl_limit_last_task(struct cl_state *state, double seconds, int (*is_waiting)(void));
/// Whether the time limit has been reached.
int cl_time_is_over(void);

/// Counts the runs of each Lua line, in this coroutine and in all coroutines that are made later, in any state. 0 stops
/// the counting. A negative number changes nothing, except that this coroutine gets the hook of the others.
void cl_count_lines(struct lua_State *L, int on);
/// Calls `each` for each count, then resets all. `what` is the number of a line, plus 2^24 times the number of the line
/// that ran before it in the same call. If no line ran before it, the second number is 0xffffff. For a call of a
/// function, `what` is the line in which the function begins.
void cl_take_lines(void *context, void (*each)(void *context, const char *source, int64_t what, uint64_t count));
