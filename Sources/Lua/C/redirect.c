// Redirects Lua's standard streams while code that another process has sent runs: its output goes to that process. Also
// announces each read of standard input.
#define _GNU_SOURCE
#include "private.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>

// Lua's `print` reads the variable `stdout` at each call. `io.stdout` and the default output are the same userdata,
// which has its own pointer, copied from `stdout` when the libraries were opened. A redirection changes the variable
// and this pointer temporarily, so that all Lua values stay the same.

static FILE *own_output, *own_input;  // the original streams of the process; NULL without a redirection
// Made once and never closed: a thread that opens its libraries during a redirection gets these as its standard
// streams.
static FILE *sink_stream, *empty_input;
static pthread_t redirected_thread;
static cl_sink *sink;
static luaL_Stream *streams[2];
static void (*_Atomic threads_listener)(const void *bytes, size_t length);

void cl_listen_to_threads(void (*listener)(const void *bytes, size_t length)) { threads_listener = listener; }

static ssize_t write_sink(void *cookie, const char *bytes, size_t length) {
  (void)cookie;
  cl_sink *current = sink;
  FILE *own = own_output;
  if (own && !pthread_equal(pthread_self(), redirected_thread)) {
    void (*listener)(const void *, size_t) = threads_listener;
    if (listener) listener(bytes, length);
  } else if (own && current && current->write(current->context, bytes, length)) {
    return (ssize_t)length;
  }
  if (!own) own = stdout;
  if (own == sink_stream) return 0;
  fwrite(bytes, 1, length, own);
  // Flush the real stream here: the caller's flush only reaches the sink, which has no buffer.
  if (length > 0 && bytes[length - 1] == '\n') fflush(own);
  return (ssize_t)length;
}

static ssize_t read_nothing(void *cookie, char *bytes, size_t length) {
  (void)cookie, (void)bytes, (void)length;
  return 0;
}

static int make_streams(void) {
  if (sink_stream) return 1;
  FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_sink});
  FILE *input = fopencookie(NULL, "r", (cookie_io_functions_t){.read = read_nothing});
  if (!stream || !input) {
    if (stream) fclose(stream);
    if (input) fclose(input);
    return 0;
  }
  // The stream has no buffer, because other threads write through it, too.
  setvbuf(stream, NULL, _IONBF, 0);
  sink_stream = stream;
  empty_input = input;
  return 1;
}

// Pushes io.stdout and io.stdin, or nil in the place of one that is not a file.
static int find_streams(lua_State *L) {
  static const char *const names[] = {"stdout", "stdin"};
  luaL_checkstack(L, 8, NULL);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushliteral(L, LUA_IOLIBNAME);
  lua_rawget(L, -2);
  for (int i = 0; i < 2; i++) {
    if (lua_type(L, 2) == LUA_TTABLE) {
      lua_pushstring(L, names[i]);
      lua_rawget(L, 2);
    } else {
      lua_pushnil(L);
    }
    if (!luaL_testudata(L, -1, LUA_FILEHANDLE)) {
      lua_pop(L, 1);
      lua_pushnil(L);
    }
  }
  return 2;
}

int cl_open_redirection(cl_state *state, uint32_t slots[2]) {
  lua_State *L = state->main;
  if (!make_streams()) return 0;
  if (cl_call_protected(L, find_streams, 0, 2) != LUA_OK) {
    lua_pop(L, 1);
    return 0;
  }
  for (int i = 0; i < 2; i++) {
    streams[i] = lua_touserdata(L, i - 2);
    // The file is anchored, because this array points to it.
    slots[i] = streams[i] ? cl_anchor(L, i - 2) : 0;
    if (!slots[i]) streams[i] = NULL;
  }
  lua_pop(L, 2);
  redirected_thread = pthread_self();
  return 1;
}

void cl_close_redirection(cl_state *state, const uint32_t slots[2]) {
  cl_redirect(NULL);
  for (int i = 0; i < 2; i++) {
    streams[i] = NULL;
    cl_let_go(state, slots[i]);
  }
}

static void exchange(luaL_Stream *stream, FILE *from, FILE *to) {
  if (stream && stream->closef && stream->f == from) stream->f = to;
}

cl_sink *cl_redirect(cl_sink *wanted) {
  cl_sink *before = sink;
  sink = wanted;
  if (wanted && !own_output && sink_stream) {
    own_output = stdout;
    own_input = stdin;
    exchange(streams[0], own_output, sink_stream);
    exchange(streams[1], own_input, empty_input);
    stdout = sink_stream;
    stdin = empty_input;
    clearerr(empty_input);
  } else if (!wanted && own_output) {
    // The script may have set a buffer by setvbuf.
    fflush(sink_stream);
    stdout = own_output;
    stdin = own_input;
    exchange(streams[0], sink_stream, own_output);
    exchange(streams[1], empty_input, own_input);
    own_output = own_input = NULL;
  }
  return before;
}

// Announced reads of standard input ----------------------------------------------------------------------------------

static int (*begin_reading)(void);
static void (*end_reading)(int end);

// Waits for input. Returns 0 with EINTR if the running code is to be interrupted, also by a signal that came just
// before the wait.
static int await_input(void) {
  struct pollfd input = {STDIN_FILENO, POLLIN, 0};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int result = -1;
  errno = EINTR;
  while (!cl_has_interrupt() && (result = ppoll(&input, 1, NULL, &before)) < 0 && errno == EINTR) {}
  int error = result < 0 ? errno : 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = error;
  return result > 0;
}

static ssize_t read_behind(void *cookie, char *bytes, size_t length) {
  FILE *direct = cookie;
  size_t ahead = (size_t)(direct->_IO_read_end - direct->_IO_read_ptr);
  if (ahead > 0) return (ssize_t)fread(bytes, 1, ahead < length ? ahead : length, direct);
  errno = begin_reading();
  if (errno) return -1;
  ssize_t count = await_input() ? read(STDIN_FILENO, bytes, length) : -1;
  int error = errno;
  end_reading(count <= 0 ? (int)count : bytes[count - 1] == '\n' ? '\n' : 1);
  errno = error;
  return count;
}

int cl_announce_reading(cl_state *state, int (*begin)(void), void (*end)(int)) {
  lua_State *L = state->main;
  FILE *direct = stdin;
  FILE *announced = fopencookie(direct, "r", (cookie_io_functions_t){.read = read_behind});
  if (!announced) return 0;
  // Make fileno(3) return the descriptor that is really read.
  announced->_fileno = STDIN_FILENO;
  begin_reading = begin;
  end_reading = end;
  // Never closed: later threads have it as their standard input, too.
  stdin = announced;
  if (cl_call_protected(L, find_streams, 0, 2) == LUA_OK) {
    exchange(lua_touserdata(L, -1), direct, announced);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return 1;
}
