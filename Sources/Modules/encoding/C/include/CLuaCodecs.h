// CLuaCodecs: the native halves of runloop.encoding, .crypto, .url, .zlib, .redis, .nats, .socket, .luv, .glib and
// .metrics: C functions for Lua. The functions raise errors, so that only Lua may call them, not Swift, unless a
// comment says otherwise.
#pragma once

#include <lua.h>
#include <stddef.h>
#include <stdint.h>

/// Each of these lua_CFunctions pushes a table of functions. Its argument is the module runloop.misuse.
int encoding_open(lua_State *L);
int crypto_open(lua_State *L);
int zlib_open(lua_State *L);
int socket_open(lua_State *L);
int luv_open(lua_State *L);
int glib_open(lua_State *L);
int nats_open(lua_State *L);
/// The second argument is the metatable of URLs.
int url_open(lua_State *L);
/// The argument is the metatable of errors inside answers.
int redis_open(lua_State *L);

/// The second argument is a table. Its element 1 is a function that gets the name of a metric with too many series.
int metrics_open(lua_State *L);
/// Makes the process forget all metrics, between two tests. For Swift; any thread.
void metrics_reset(void);
/// Seconds since the process began, its bytes in memory, and the number of its sockets that have a peer. Any thread.
double metrics_age(void);
double metrics_resident(void);
int metrics_connections(void);

/// escape(text, is_form) -> text: all but letters, digits and -._~ as %XX. A lua_CFunction.
int url_escape_text(lua_State *L);
/// unescape(text, is_form) -> text, or nil. A lua_CFunction.
int url_unescape_text(lua_State *L);

/// Writes the key of PBKDF2 with a digest that `check_pbkdf2` has found. Returns 0 without memory. For Swift; any
/// thread.
int crypto_derive(const char *name, const char *password, int password_length, const char *salt, int salt_length,
                  int rounds, char *key, int length);

/// The loop of a library, as a bridge serves it. The struct's functions are for Swift, on the loop's thread.
typedef struct bridge_source {
  /// Returns whether the loop has something to wait for, so that it keeps the run loop running.
  int (*is_active)(struct bridge_source *source);
  /// Returns the time of CLOCK_MONOTONIC, in nanoseconds, at which the loop needs a turn; BRIDGE_NOW; BRIDGE_NEVER if
  /// only the loop's descriptor decides; or BRIDGE_IDLE if a turn would do nothing.
  int64_t (*date)(struct bridge_source *source);
  /// Writes a text about the events for which the loop waits.
  void (*describe)(struct bridge_source *source, char *text, size_t size);
  /// Whether the source's descriptor has been found unreadable at the end of the latest turn.
  int is_drained;
  /// Called when the userdata is collected: the other functions then find no loop.
  void (*end)(struct bridge_source *source, lua_State *L);
  // Called after each sleep of the run loop; may be NULL.
  void (*wake)(struct bridge_source *source);
} bridge_source;
#define BRIDGE_IDLE INT64_C(-1)
#define BRIDGE_NOW INT64_C(0)
#define BRIDGE_NEVER INT64_MAX

/// Pushes a userdata of `size` bytes, which begin with a source; the rest is 0. For Lua.
bridge_source *bridge_push_source(lua_State *L, size_t size, bridge_source head);
/// Returns the source of the userdata at an index, or NULL for other values. The caller must keep the userdata alive
/// while it uses the source. For Swift and Lua.
bridge_source *bridge_source_at(lua_State *L, int index);
/// Makes a descriptor that becomes readable at a date. Returns -1, and sets errno, if the system refuses it.
int bridge_timer(void);
/// Sets the date in nanoseconds of CLOCK_MONOTONIC; BRIDGE_NEVER: none.
void bridge_set_timer(int timer, int64_t date);
/// Returns whether a descriptor is readable.
int bridge_is_readable(int fd);
