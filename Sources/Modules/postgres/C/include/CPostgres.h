// CPostgres: the native half of `runloop.postgres`. libpq is opened at the first use. A connection is made on a thread;
// afterwards it belongs to the thread of its Lua.
#pragma once

#include <lua.h>
#include <stdint.h>

/// A connection. Its Lua object and the threads that work for it each have a reference to it.
typedef struct cpostgres cpostgres;

/// Loads libpq. Returns NULL, or the reason why libpq cannot be loaded.
const char *cpostgres_load(void);

/// Returns the connection at an index of the stack, with a further reference. Returns NULL for another value, or if the
/// connection is closed.
cpostgres *cpostgres_hold(lua_State *L, int index);
/// Releases a reference. With the last one, the connection is closed and freed.
void cpostgres_release(cpostgres *it);
/// Connects. Blocks until the connection is made or has failed. Any thread.
void cpostgres_connect(cpostgres *it);
/// Asks the server to end the statement that runs. Any thread. Blocks.
void cpostgres_cancel(cpostgres *it);

/// Pushes the functions for Lua. A lua_CFunction, whose arguments are the class of binary parameters and a function
/// that decodes JSON.
int cpostgres_open(lua_State *L);
