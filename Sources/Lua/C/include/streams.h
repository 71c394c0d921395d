// Lua's standard streams.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct cl_state cl_state;

/// Takes what is printed. `write` returns 0 for what is to be printed as ever.
typedef struct cl_sink {
  void *context;
  int (*write)(void *context, const char *bytes, size_t length);
} cl_sink;
/// Prepares redirecting what Lua of this host prints, on its thread. Returns 0 when memory is out. One host at a time.
int cl_open_redirection(cl_state *state, uint32_t slots[2]);
void cl_close_redirection(cl_state *state, const uint32_t slots[2]);
/// What is printed goes to the sink, and reading finds the end of input; NULL: as ever. Returns the sink before.
cl_sink *cl_redirect(cl_sink *sink);
/// What other threads print while the output is redirected is told to `listener`, on their threads; NULL: to nobody.
void cl_listen_to_threads(void (*listener)(const void *bytes, size_t length));

/// From now on whoever reads standard input through C's or Lua's stream, on whatever thread, calls `begin` before it may have to wait:
/// 0, or an error number that refuses; and `end` afterwards: '\n', a line's end was read last; 1, something else; 0, the end of
/// input; -1, it failed. Once, for good. Returns 0 when memory is out.
int cl_announce_reading(cl_state *state, int (*begin)(void), void (*end)(int));
