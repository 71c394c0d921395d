// CJSON: the codec of `runloop.json`. Pure C over Lua's library: it raises, so Swift never calls it; Lua does.
#pragma once

#include <lua.h>

/// Pushes the table of native functions and values: encode, decode, null, array, object. A lua_CFunction, whose argument is a function
/// that raises what makes no sense: (text, whether a value is to be shown behind it, value).
int json_open(lua_State *L);

/// The longest text of a number, with room to spare.
enum { JSON_NUMBER_SIZE = 40 };

/// Writes the shortest decimal that reads as exactly this finite number, with a point or an exponent, so that it reads as a
/// float. Returns the length; not terminated. From any thread.
int json_write_double(char *to, double number);
/// Writes an integer. Returns the length; not terminated.
int json_write_integer(char *to, lua_Integer number);
/// The number nearest to the decimal digits × 10^exponent that a text from `text` to `end` spells, which has JSON's form.
double json_read_double(const char *text, const char *end);
