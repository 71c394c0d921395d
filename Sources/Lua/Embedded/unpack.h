// Unpacks the texts of modules, which scripts/build has packed in the format of RFC 1951 (deflate).
#pragma once

#include <stddef.h>

/// Unpacks `length` bytes into `size` bytes. Returns 0 if the unpacked bytes do not have exactly that size, or are not
/// well-formed.
int lua_modules_unpack(const unsigned char *packed, size_t length, char *text, size_t size);
