// The standard output and the standard error: each byte is written, or its loss shows in the exit status.
#pragma once

#include <stddef.h>

/// Opens closed standard descriptors on /dev/null so that no file opened later gets their numbers; reading and writing there still
/// fails with EBADF. Then replaces C's `stdout` and `stderr` by streams that write everything through `linux_write_all`. To be called
/// once, before Lua's libraries are opened, which keep the two.
void linux_open_standard_streams(void);

/// Writes all of it, however often the system call takes a part or has no room. Returns 0, or the error at which it gave up; for
/// descriptors 1 and 2 that is noted as a loss.
int linux_write_all(int fd, const void *bytes, size_t length);

/// Writes all of it to C's standard output (1) or standard error (2), through their buffers, and flushes.
void linux_print(int fd, const void *bytes, size_t length);

/// `has_come` returns whether the calling thread should stop waiting for room because of a signal; what is left to write is then
/// lost, with EINTR.
void linux_set_interruption(int (*has_come)(void));

/// Notes that something meant for standard descriptor 1 or 2 was lost. The first error of each counts.
void linux_note_loss(int fd, int error);

/// Flushes both streams, and prints a line for each that has lost something. Returns the status with which the process is to end:
/// `status` unless that is 0; then 1 if something was lost, or 141 if the reader of the standard output has gone. `linux_end` and exit(3)
/// call it; code that ends the process by _exit(2) has to.
int linux_settle_standard_streams(int status);
