// What the test runner has of a state: an end for tests that take too long, and how often each line ran.
#pragma once

#include <stdint.h>

struct cl_state;
/// Code that runs in Lua gets an error, because nothing can happen any more in the loop that it runs.
void cl_interrupt_stuck(struct cl_state *state);
/// After so many real seconds, code that runs in Lua gets the error "the test takes too long", again every second, and
/// `notify` is called in the signal handler. 0 seconds: off.
void cl_watch(struct cl_state *state, double seconds, void (*notify)(void), int (*is_waiting)(void), double (*left)(void));
/// After so many real seconds, code that runs in Lua raises what `state->cancelled` anchors, again every second. 0 seconds: off. Nothing
/// where a test is watched. Returns whether the time of the limit before was over.
int cl_limit_last_task(struct cl_state *state, double seconds, int (*is_waiting)(void));
/// Whether the time is over.
int cl_time_is_over(void);

/// Counts how often each line of Lua runs, in this coroutine, and in all that are made from now on in any state. Off: 0; a negative
/// number leaves that as it is, for a coroutine whose hook is to be as that of others.
void cl_count_lines(struct lua_State *L, int on);
/// Calls `each` for what was counted, then forgets it. `what` is the number of a line, and that of the line before it in the same call
/// times 2^24: 0xffffff, if it was the first. For the call of a function: the line in which the function begins alone.
void cl_take_lines(void *context, void (*each)(void *context, const char *source, int64_t what, uint64_t count));
