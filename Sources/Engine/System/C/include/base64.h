// Encoding of bytes as base64 (RFC 4648).
#pragma once

#include <stddef.h>

/// Writes 4 characters for each 3 bytes, with padding and without a NUL at the end. Returns their number.
size_t linux_write_base64(char *to, const unsigned char *bytes, size_t length);
