// CJSON: the codec of `runloop.json`, in C with Lua's library. The codec raises errors, so that only Lua may call it,
// not Swift.
#pragma once

#include <lua.h>

/// Pushes the table of native functions and values: encode, decode, null, array, object. A lua_CFunction. Its argument
/// is a function that raises errors for wrong arguments: (text, whether to show a value after it, value).
int json_open(lua_State *L);

/// At least the longest text of a number.
enum { JSON_NUMBER_SIZE = 40 };

/// Writes the shortest decimal that reads as this finite number. The text has a point or an exponent, so that it reads
/// as a float. Returns the length; does not terminate the text. Any thread.
int json_write_double(char *to, double number);
/// Writes an integer. Returns the length; does not terminate the text.
int json_write_integer(char *to, lua_Integer number);
/// Returns the float nearest to the number in JSON's form from `text` to `end`.
double json_read_double(const char *text, const char *end);
