// CSQLite: the native half of `runloop.sqlite`. libsqlite3 is opened at the first use. Each connection belongs to one
// thread, which carries out requests; requests and replies are blocks of bytes that Lua functions write and read.
#pragma once

#include <lua.h>
#include <stddef.h>
#include <stdint.h>

/// A connection. Only its own thread may use it, except for csqlite_cancel.
typedef struct csqlite csqlite;

/// Makes a connection that is not open yet. Returns NULL without memory.
csqlite *csqlite_make(void);
/// Closes and frees it.
void csqlite_free(csqlite *it);
/// Carries out a request, whose number is `job`. Returns the reply, which the caller frees, and its length; NULL
/// without memory.
char *csqlite_run(csqlite *it, uint64_t job, const char *request, size_t length, size_t *reply_length);
/// Ends a job early, if it runs at this moment or comes later; never another one. Safe on any thread.
void csqlite_cancel(csqlite *it, uint64_t job);

/// Loads libsqlite3. Returns NULL, or the reason for which that is impossible.
const char *csqlite_load(void);

/// Pushes the functions `request` and `reply`. A lua_CFunction.
int csqlite_open_codec(lua_State *L);
