// The end of the process, by itself or by a signal.
#pragma once

/// Everything that must stop or be completed before this process ends, in this order. This list is the only one.
///
/// Threads, work pools, resolvers, watchers and recorders are left out on purpose: they run until the last moment. They
/// may use memory and libraries such as OpenSSL until then, since neither exit handlers nor destructors of libraries
/// run, and `_exit` ends all threads at once. `LuaHost.willClose` has the order in which a state or a thread gives back
/// its resources while the process lives.
enum linux_last_act {
  /// Completes the recording. Comes first, since the other actions may take seconds, during which a second signal may
  /// end the process.
  LINUX_FINISH_RECORDING,
  /// Gives up the names of message ports. Comes before any action that waits, since no process should find a port that
  /// is not served.
  LINUX_GIVE_NAMES_UP,
  /// Ends programs. Comes before the terminals, since a program may change its terminal's settings until it ends.
  LINUX_END_PROGRAMS,
  LINUX_GIVE_TERMINALS_BACK,  ///< Restores scripts' terminals. Comes before the prompt, which lends them to scripts.
  LINUX_LEAVE_PROMPT,         ///< Leaves the prompt. Comes after everything that may print to its screen.
  LINUX_SAY_LAST_WORDS,       ///< Writes a test process's report. Comes last, so that the report contains all events.
  LINUX_LAST_ACTS
};

/// Sets a function that is called once when this process ends by itself: by `linux_end`, `linux_end_by` or C's `exit`.
/// The function is called on the thread that ends the process, while other threads continue. Children that C code forks
/// do not call it.
void linux_at_end(enum linux_last_act act, void (*function)(void));

/// Ends the process: calls the functions set with `linux_at_end`, flushes C's files, and leaves by `_exit`, so that no
/// exit handler of a library runs while threads still use the library. Safe on any thread; if several threads call it,
/// the first call decides the status.
_Noreturn void linux_end(int status);
/// Ends the process by the default action of a signal, which the parent process sees.
_Noreturn void linux_end_by(int number);
