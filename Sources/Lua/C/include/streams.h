// Lua's standard streams.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct cl_state cl_state;

/// Receives printed output. `write` returns 0 if the output should go its usual way.
typedef struct cl_sink {
  void *context;
  int (*write)(void *context, const char *bytes, size_t length);
} cl_sink;
/// Prepares the redirection of this host's printed output, on its thread. Returns 0 if there is no memory. Only one
/// host may call this at a time.
int cl_open_redirection(cl_state *state, uint32_t slots[2]);
void cl_close_redirection(cl_state *state, const uint32_t slots[2]);
/// Sends printed output to the sink, and makes reads find the end of input; NULL restores both. Returns the previous
/// sink.
cl_sink *cl_redirect(cl_sink *sink);
/// Sets the function that receives the output of other threads while the output is redirected. The function is called
/// on those threads; NULL removes it.
void cl_listen_to_threads(void (*listener)(const void *bytes, size_t length));

/// Announces each read of standard input through C's or Lua's stream, on any thread. `begin` is called before the read
/// may have to wait, and returns 0 or an error number that refuses the read. `end` is called after the read: with '\n'
/// if the last byte was a line feed, 1 for another byte, 0 at the end of input, and -1 on failure. Call this function
/// once; the announcement cannot be removed. Returns 0 if there is no memory.
int cl_announce_reading(cl_state *state, int (*begin)(void), void (*end)(int));
