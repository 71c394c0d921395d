// The functions of a terminal that a prompt needs.
#pragma once

#include <stddef.h>

/// The modes of a terminal.
enum terminal_mode {
  TERMINAL_OWN,  ///< with the settings that were found
  TERMINAL_RAW,  ///< each key arrives at once, also Control-C
};

/// Remembers the settings of the terminal that is descriptor 0. Returns 0 if the descriptor is not a terminal.
int terminal_open(void);
void terminal_set_mode(enum terminal_mode mode);
/// Returns a descriptor for reading keys without waiting; 0, the standard input itself, if none can be opened.
int terminal_keys(void);
/// Gets the size in characters; 0 if unknown.
void terminal_size(int *columns, int *rows);

/// Replaces standard output and standard error, if they are the terminal, by a pseudo-terminal. Returns the other end
/// of the pseudo-terminal, from which the output of this process and its children can be read; -1 on failure.
int terminal_capture(void);
/// Returns a descriptor of the terminal itself, for writing.
int terminal_output(void);
/// Returns whether the terminal puts a carriage return before each line feed.
int terminal_adds_returns(void);
/// Returns whether the terminal echoes keys. A program that stands in for a terminal may echo them itself.
int terminal_echoes(void);
/// If `lends` is not 0, restores standard error while a program runs; otherwise captures it again. Pagers read keys
/// from the terminal that standard error refers to.
void terminal_lend(int lends);
/// Restores standard output and standard error.
void terminal_release(void);
/// Returns a descriptor that becomes readable when the size of the terminal changes, or when the process continues
/// after a stop.
int terminal_watch(void);
/// Clears the change, and sets the terminal's mode again after a stop. Returns whether there was a change.
int terminal_take_change(void);

/// Flushes the buffers of C's streams.
void terminal_flush(void);
/// Returns the number of bytes in the buffer of C's standard input.
size_t terminal_buffered_input(void);
/// Reads a line from C's standard input. Returns the line without its end; NULL at the end of input. The caller must
/// free it.
char *terminal_read_line(size_t *length);

// Terminals of scripts, by their descriptors; at most eight at a time.

/// Sets raw mode: each key arrives at once and without echo; with `signals`, Control-C and similar keys still send
/// signals. The previous settings are restored by linux_cook_terminal or when the process exits. -1 and errno if the
/// descriptor is not a terminal, or there are too many.
int linux_raw_terminal(int fd, int signals);
/// Sets the text that is written when the terminal becomes raw again after a stop, and the text that is written before
/// its settings are restored. At most 255 bytes each. Call it only while the terminal is raw.
void linux_set_farewell(int fd, const char *greeting, const char *farewell);
/// Restores the settings. Does nothing if the terminal is not raw.
void linux_cook_terminal(int fd);
/// Takes a lent terminal back, and restores the settings of all terminals. Safe in a signal handler.
void linux_cook_terminals(void);
/// Restores terminals at signals that end or stop the process, unless these signals are ignored or handled. After that,
/// the signal of a crash goes to the handler that was set before.
void linux_guard_terminals(void);
/// Makes terminals raw again after a stop, and sends SIGWINCH so that scripts draw their screens again. Safe in a
/// signal handler.
void linux_take_terminals_up(void);
/// Gets the size in characters. -1 and errno if the terminal has no size.
int linux_terminal_size(int fd, int *rows, int *columns);

// Lending a terminal to a program makes the program's group the foreground group, which gets the keys.

/// Returns a descriptor of the terminal if this process's group is in the foreground. -1 and errno: EBUSY if the
/// terminal is lent already, ENOTTY if there is no terminal to lend. Also restores the settings of raw terminals. The
/// terminals become raw again when the lent terminal is taken back, or by linux_take_terminals_up if the terminal is
/// not lent after all.
int linux_terminal_to_lend(void);
/// Returns whether the terminal is lent.
int linux_terminal_is_lent(void);
/// Lends the terminal to a process group, until this process ends or takes it back.
void linux_lend_terminal(int group);
/// Takes the terminal back, with its previous settings, if this group has it; 0 for any group. Safe in a signal
/// handler.
void linux_take_terminal_back(int group);
