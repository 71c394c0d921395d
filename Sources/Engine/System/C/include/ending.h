// The end of the process, by its own will or by a signal.
#pragma once

/// Everything that must stop or be completed before this process ends, in this order. It is the only such list.
///
/// Threads, work pools, resolvers, watchers and the recorders of loops are not in it on purpose: they run until the last moment. They use
/// memory, and libraries such as OpenSSL, and the end takes neither away: no exit handler and no destructor of a library runs, and `_exit`
/// ends all threads at once. What a state or a thread gives back while the process lives is in the order of `LuaHost.willClose`.
enum linux_last_act {
  LINUX_FINISH_RECORDING,       ///< First: the next ones may take seconds, in which a second signal may end the process.
  LINUX_GIVE_NAMES_UP,          ///< Of message ports. Before anything that waits: nobody should find a port that is not served.
  LINUX_END_PROGRAMS,           ///< Before the terminals: a program may have one, and change its settings until it ends.
  LINUX_GIVE_TERMINALS_BACK,    ///< Those of scripts. Before the prompt: a script has got its terminal from the prompt.
  LINUX_LEAVE_PROMPT,           ///< Behind all that may still print to the prompt's screen.
  LINUX_SAY_LAST_WORDS,         ///< Of a test's process: nothing happens behind it that belongs into a report.
  LINUX_LAST_ACTS
};

/// Has `function` called once when this process ends by itself: by `linux_end`, `linux_end_by` or C's `exit`. On the thread that ends it;
/// other threads run on meanwhile. Not in children that C code forks.
void linux_at_end(enum linux_last_act act, void (*function)(void));

/// Ends the process: does what was asked for with `linux_at_end`, writes out what C's files hold, and leaves by `_exit`, so that
/// no exit handler of a library runs under threads that still use it. On any thread; of several threads that call it, the first one
/// decides about the status.
_Noreturn void linux_end(int status);
/// The same by a signal, as if nobody had handled that.
_Noreturn void linux_end_by(int number);
