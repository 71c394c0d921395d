// What a prompt needs of a terminal.
#pragma once

#include <stddef.h>

/// How the terminal treats keys.
enum terminal_mode {
  TERMINAL_OWN,  ///< as it was found
  TERMINAL_RAW,  ///< each byte as it comes, Control-C included
};

/// Remembers the settings of the terminal that is descriptor 0. Returns 0 if there is none.
int terminal_open(void);
void terminal_set_mode(enum terminal_mode mode);
/// The terminal, for reading without waiting. 0, descriptor 0 itself, if that is not to be had.
int terminal_keys(void);
/// Columns and rows; 0 where they are not known.
void terminal_size(int *columns, int *rows);

/// Takes the place of standard output and standard error, where they are the terminal, with a pseudo-terminal, whose other
/// end is returned: what is written there has come from this process or its children. -1 on failure.
int terminal_capture(void);
/// The terminal itself, for writing.
int terminal_output(void);
/// Whether it puts a carriage return before each line feed.
int terminal_adds_returns(void);
/// Whether what is typed is shown, which a program that stands in for a terminal may want to do itself.
int terminal_echoes(void);
/// Gives standard error back for the time that a program runs: pagers look there for the terminal whose keys they read.
void terminal_lend(int lends);
/// Gives standard output and standard error back.
void terminal_release(void);
/// A descriptor that becomes readable when the terminal's size has changed, or when the process goes on after having been
/// stopped.
int terminal_watch(void);
/// Takes note of the change, and sets the terminal's mode again after a stop. Returns whether there was one.
int terminal_take_change(void);


/// Flushes what C's streams have buffered.
void terminal_flush(void);
/// How many bytes of standard input C's stream has buffered.
size_t terminal_buffered_input(void);
/// Reads a line of standard input, through C's stream; without the line's end. NULL at the end of input. Free it.
char *terminal_read_line(size_t *length);

// Terminals of scripts, by their descriptors: as many as eight at a time.

/// Each byte comes as it is typed, without an echo; with `signals`, Control-C and its kin still are signals. Its settings are kept, and
/// come back with `linux_cook_terminal`, or when the process exits. -1 and errno: it is no terminal, or there are too many.
int linux_raw_terminal(int fd, int signals);
/// What is written to it after a stop, when it becomes raw again, and before its settings come back. At most 255 bytes each. Only while it
/// is raw.
void linux_set_farewell(int fd, const char *greeting, const char *farewell);
/// Gives it back as it was found. Does nothing if it is not raw.
void linux_cook_terminal(int fd);
/// The same for all, after the one that is lent was taken back. Safe in a signal handler.
void linux_cook_terminals(void);
/// Has terminals given back at signals that end or stop the process, unless these are ignored or handled; crashes go on to who handled them.
void linux_guard_terminals(void);
/// The process goes on after a stop: what was raw is raw again, and SIGWINCH has scripts draw. Safe in a signal handler.
void linux_take_terminals_up(void);
/// -1 and errno: it has none.
int linux_terminal_size(int fd, int *rows, int *columns);

// A terminal that is lent to a program: the program's group is the one whose keys it gives.

/// A descriptor of the terminal, if this process's group is the one that has it. -1: EBUSY, it is lent already; ENOTTY, there is none to lend.
int linux_terminal_to_lend(void);
/// The group has it from now on. It is taken back at the end of this process.
void linux_lend_terminal(int group);
/// Takes it back, with the settings that it had, if that group has it (0: whichever). Safe in a signal handler.
void linux_take_terminal_back(int group);
