// The standard output and the standard error: each byte is written, or the exit status shows its loss.
#pragma once

#include <stddef.h>

/// Opens closed standard descriptors on /dev/null, so that no file that is opened later gets their numbers; reading and
/// writing them still fails with EBADF. Then replaces C's `stdout` and `stderr` by streams that write through
/// linux_write_all. Call it once, before Lua's libraries are opened, since they keep both streams.
void linux_open_standard_streams(void);

/// Writes all bytes, however many system calls and waits that takes. Returns 0, or the errno of the failure. A failure
/// for descriptor 1 or 2 is noted as a loss.
int linux_write_all(int fd, const void *bytes, size_t length);

/// Writes all bytes through the buffers of C's standard output (1) or standard error (2), and flushes.
void linux_print(int fd, const void *bytes, size_t length);

/// Sets a function that returns whether a signal must end the calling thread's wait for room. If it returns 1, the
/// rest of the data is lost, with the error EINTR.
void linux_set_interruption(int (*has_come)(void));

/// Notes that data for descriptor 1 or 2 was lost. Only the first error of each descriptor is kept.
void linux_note_loss(int fd, int error);

/// Notes a loss that was already reported: of descriptor 1 or 2, or of another descriptor of the same file.
void linux_note_told_loss(int fd, int error);

/// Flushes both streams, and prints a line for each stream that has lost data. Returns the status with which the
/// process must end: `status` if that is not 0; otherwise 1 if data was lost, or 141 if the reader of the standard
/// output has gone. `linux_end` and exit(3) call it; code that ends the process by _exit(2) must call it.
int linux_settle_standard_streams(int status);
