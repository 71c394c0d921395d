// What the test runner has of a state: an end for tests that take too long, and how often each line ran.
#pragma once

#include <stdint.h>

struct cl_host;
/// Code that runs in Lua gets an error, because nothing can happen any more in the loop that it runs.
void cl_interrupt_stuck(struct cl_host *host);
/// After so many real seconds, code that runs in Lua gets the error "the test takes too long", again every second, and
/// `notify` is called in the signal handler. 0 seconds: off.
void cl_watch(struct cl_host *host, double seconds, void (*notify)(void), int (*is_waiting)(void));
/// Whether the time is over.
int cl_time_is_over(void);

/// Counts how often each line of Lua runs, in this state's coroutines made from now on too.
void cl_count_lines(struct cl_host *host, int on);
/// Calls `each` for each line counted, then forgets them.
void cl_take_lines(void *context, void (*each)(void *context, const char *source, int line, uint64_t count));
