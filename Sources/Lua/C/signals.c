// Signals, and how they interrupt running Lua code.
#define _GNU_SOURCE
#include "private.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static cl_state *volatile signal_host;
static pthread_t signal_thread;
static void (*signal_notify)(void);
static int (*signal_is_waiting)(void);
static void (*signal_explain)(cl_state *);

// Signals that have come and were not taken yet.
static volatile sig_atomic_t noted[32];
// Whether the running Lua code has not noticed a signal yet.
static volatile sig_atomic_t pending;
// Whether the process is ending. Lua code that catches the interruption may still go on for a while.
static int is_ending;
// Whether the script has work to do before it ends, so that the first signal interrupts nothing.
static volatile sig_atomic_t is_deferring;
// Whether the script's text is being read.
static volatile sig_atomic_t is_reading;
// Whether the running code must be interrupted, for any reason.
static int is_to_interrupt;

int cl_take_signal(int number) {
  if (!noted[number]) return 0;
  noted[number] = 0;
  return 1;
}

// The state of a thread other than the one for signals, if its Lua code can be cancelled.
static _Thread_local cl_state *cancelled_host;
// `was_cancelled` prevents a second cancellation while `only_wakes` is set, which only ends system calls.
static _Thread_local volatile sig_atomic_t cancel_pending, was_cancelled;
// How many times the cancellation error was raised in the thread's code.
static _Thread_local int cancellations;
static _Atomic int only_wakes;  // set by the thread that ends the program, and read by the handler on all

// Whether the running entry has not yet noticed a request to end.
static volatile sig_atomic_t entry_pending;
static void hook(lua_State *L);

// Raises the error that ends the running code.
static int interrupt(lua_State *L) {
  cl_guard(L, interrupt);
  cl_state *state = cancelled_host;
  int pressure = state ? 0 : cl_pressure_on_entry();
  if (pressure > 0) cl_disarm_handlers(L);
  if (pressure > 1) {
    entry_pending = 1;
    hook(L);
  }
  if (state && cancellations++ > 0) cl_disarm_handlers(L);
  if (!state || !state->cancelled) return cl_raise_interruption(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, state->anchors);
  lua_rawgeti(L, -1, state->cancelled);
  return lua_error(L);
}

// Entries that another process has sent -----------------------------------------------------------------------------

// Called between two instructions of Lua. Returns whether the next instruction belongs to the entry.
static int (*is_in_entry)(cl_state *state);

static int take_entry_interrupt(void) {
  // If the entry runs the loop, callbacks in that run are not interrupted: the interruption waits until they return.
  if (!entry_pending || !is_in_entry(signal_host)) return 0;
  entry_pending = 0;
  return cl_entry_is_unwanted();
}

// The handler ---------------------------------------------------------------------------------------------------------

// Whether the hook was called for Swift's own call of a C function. Do not interrupt such a call: its work would be
// lost, and no code of the script would end. The script's next instruction comes soon enough.
int cl_is_own_call(lua_State *L, lua_Debug *debug) {
  if (cl_own_calls == 0 || debug->event == LUA_HOOKLINE || debug->event == LUA_HOOKCOUNT) return 0;
  return lua_getinfo(L, "S", debug) && *debug->what == 'C';
}

// The largest number of hook calls by which an interruption is put off. Code of the host that runs for longer than this
// is calling a C function that the script has passed.
enum { MOST_PUT_OFF = 1000000 };
static _Thread_local int put_off;

// If code of the host were interrupted halfway, it would leak resources that its variables hold, such as descriptors.
// Such code soon ends, waits, or calls the script.
int cl_is_in_part(lua_State *L) {
  lua_Debug debug;
  for (int level = 0; lua_getstack(L, level, &debug); level++) {
    lua_getinfo(L, "S", &debug);
    if (*debug.what == 'C') continue;
    if (!cl_is_hosts(&debug) || ++put_off > MOST_PUT_OFF) break;
    return 1;
  }
  put_off = 0;
  return 0;
}

// Runs inside Lua, at the first instruction after the signal that does not belong to the host.
static void on_hook(lua_State *L, lua_Debug *debug) {
  if (cl_is_own_call(L, debug) || cl_is_in_part(L)) return;
  if (cl_is_guarding) lua_sethook(L, cl_on_guarded_call, LUA_MASKCALL, 0);
  else cl_give_hook_back(L);
  cl_forget_hook();
  if (cancelled_host) {
    if (cancel_pending) {
      cancel_pending = 0;
      interrupt(L);
    }
    return;
  }
  unsigned granted = cl_fulfil_wishes(signal_host);
  int ends_entry = take_entry_interrupt() || granted & CL_WISH_INTERRUPT;
  if (!pending) {
    if (ends_entry) interrupt(L);
    return;
  }
  pending = 0;
  if (cl_take_signal(SIGPIPE)) cl_end_if_nobody_reads();
  if (cl_take_signal(SIGQUIT)) {
    fflush(stdout);
    signal_explain(signal_host);
  }
  // SIGTERM stays noted, so that the host still ends with the status for SIGTERM.
  int is_asked = is_to_interrupt;
  is_to_interrupt = 0;
  int has_signal = !is_deferring && (cl_take_signal(SIGINT) || noted[SIGTERM]);
  if (has_signal || is_asked || is_ending || ends_entry) interrupt(L);
}

static void hook(lua_State *L) { cl_displace_hook(L, on_hook, cl_on_guarded_call); }

void cl_pass_interrupt(cl_state *state, lua_State *L) {
  if (state == cancelled_host) {
    if (cancel_pending) hook(L);
    else if (cl_is_guarding) lua_sethook(L, cl_on_guarded_call, LUA_MASKCALL, 0);
    return;
  }
  if (state != signal_host) return;  // the state of another thread, which signals do not interrupt
  if (pending || entry_pending || cl_has_wishes()) hook(L);
  else if (cl_is_guarding) lua_sethook(L, cl_on_guarded_call, LUA_MASKCALL, 0);
}

// SIGTERM should end a program that is inside C code, as it does under lua. So if the code has not noticed the signal
// after a second, the signal ends the process. Code that was interrupted and goes on is interrupted again each second:
// up to thirty times, or up to three times if the sender repeats the signal. Code may catch a first SIGINT and go on; a
// second SIGINT is as urgent as under lua.
enum { PATIENCE_SECONDS = 1, PATIENCE_TIMES = 30, INSISTENCE_TIMES = 3, INSISTENCE_SECONDS = 60 };
static int patience;
// If the process got no processor time in that second, it gets this additional time to reach an instruction.
enum { CHANCE_MILLISECONDS = 100 };
static int had_chance;
// `insistence`: the number of SIGINT and SIGTERM since running code last returned. `insisting`: the latest of these
// signals.
static int insistence, insisting;
static time_t insisted;

static void insist(int number) {
  struct timespec present;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &present);
  insistence = insistence && present.tv_sec - insisted < INSISTENCE_SECONDS ? insistence + 1 : 1;
  insisted = present.tv_sec;
  insisting = number;
  patience = had_chance = 0;
  if (number == SIGTERM || insistence > 1) cl_wake_in(PATIENCE_SECONDS);
}

// The signal because of which the state is being closed, and the seconds that are left for it.
static volatile sig_atomic_t closing_by, closing_for;
enum { CLOSING_SECONDS = 3 };

void cl_limit_closing(int number) {
  closing_for = CLOSING_SECONDS;
  closing_by = number;
  cl_wake_in(PATIENCE_SECONDS);
}

static void lose_patience(void) {
  if (closing_by) {
    closing_for = closing_for - 1;
    return closing_for > 0 ? cl_wake_in(PATIENCE_SECONDS) : cl_end_by(closing_by);
  }
  cl_state *state = signal_host;
  int number = noted[SIGTERM] ? SIGTERM : insistence > 1 ? insisting : 0;
  if (!number) return;
  if (!state) return cl_end_by(number);
  // While the thread waits, the loop handles signals by itself.
  int is_waiting = signal_is_waiting();
  if (is_waiting) insistence = 0;
  if (!noted[SIGTERM] && (is_waiting || is_deferring)) return;
  if (pending && had_chance) return cl_end_by(number);
  int has_used_it = had_chance;
  had_chance = pending != 0;
  if (had_chance) return cl_wake_in_milliseconds(CHANCE_MILLISECONDS);
  if (has_used_it) return cl_wake_in(PATIENCE_SECONDS);
  if (is_waiting || is_deferring) return cl_wake_in(PATIENCE_SECONDS);
  if (++patience >= (insistence > 1 ? INSISTENCE_TIMES : PATIENCE_TIMES)) return cl_end_by(number);
  pending = 1;
  if (number == SIGINT) is_to_interrupt = 1;
  lua_State *L = cl_innermost(state);
  if (L) hook(L);
  cl_wake_in(PATIENCE_SECONDS);
}

static void heed(int number, const siginfo_t *info) {
  if (number == SIGTERM && info->si_code == SI_TIMER) return lose_patience();
  if (!pthread_equal(pthread_self(), signal_thread)) {
    pthread_kill(signal_thread, number);  // interrupts Lua's thread, and ends the system call in which it is
    return;
  }
  // The C library would restart the interrupted read. So end the process at once, as lua does: it has no handler while
  // it reads a script.
  if (is_reading && (number == SIGINT || number == SIGTERM)) cl_end_by(number);
  // A second signal before the first was handled has the same effect as without a handler.
  if (noted[number] && (pending || is_deferring) && (number == SIGINT || number == SIGTERM)) cl_end_by(number);
  noted[number] = 1;
  cl_state *state = signal_host;
  if (state && !signal_is_waiting()) {
    pending = 1;
    lua_State *L = cl_innermost(state);
    if (L) hook(L);
    if (number == SIGINT || number == SIGTERM) insist(number);
  } else {
    insistence = 0;
  }
  if (number != SIGPIPE) signal_notify();
}

static void hook_running(cl_state *state) {
  if (state == signal_host && pending) hook(cl_innermost(state));
}
int cl_has_interrupt(void) { return pending && (noted[SIGINT] || noted[SIGTERM] || is_to_interrupt); }

static void interrupt_for(cl_state *state, int *reason) {
  if (state != signal_host) return;
  *reason = 1;
  pending = 1;
  hook_running(state);
}

int cl_ends_waits(void) { return !is_deferring && cl_has_interrupt() && pthread_equal(pthread_self(), signal_thread); }

void cl_interrupt(cl_state *state) { interrupt_for(state, &is_ending); }
void cl_interrupt_once(cl_state *state) { interrupt_for(state, &is_to_interrupt); }

// Requests use SIGURG, since programs do not use it and it is ignored by default.
static _Atomic int is_urgent_needed;  // set on each thread that begins
static int allows_wishes;

// Set by the first thread that has a limit, and read by the handler on all.
typedef int heeding(const siginfo_t *info);
static _Atomic(heeding *) heed_first;
void cl_heed_first(heeding *heed) { atomic_store_explicit(&heed_first, heed, memory_order_release); }

int cl_is_main_waiting(void) { return signal_host && signal_is_waiting && signal_is_waiting(); }

static void heed_urgent(int number, const siginfo_t *info) {
  heeding *first = atomic_load_explicit(&heed_first, memory_order_acquire);
  if (first && first(info)) return;
  // SIGUSR2, which programs may use freely, asks for a dump of the last moments.
  if (number == SIGUSR2) cl_note_wish(CL_WISH_DUMP);
  // Whether the signal comes from another process of the same user, with the agreed value.
  int is_asked = info->si_code == SI_QUEUE && info->si_value.sival_int == CL_ATTACH_WORD && info->si_uid == geteuid();
  if (is_asked && allows_wishes) cl_note_wish(CL_WISH_ATTACH);
  cl_state *state = cancelled_host;
  if (state && cl_answer_where(state, info, cancel_pending)) return;
  if (state && info->si_code == SI_TKILL) {
    // Between two callbacks there is no code to interrupt; the cancelling thread also wakes the loop.
    if (state->running && !(only_wakes && was_cancelled)) {
      cl_note_call(cl_innermost(state), !cancel_pending);
      // If Lua has called no hook since the last cancellation, it may be in a finalizer: allow hooks there.
      if (cancel_pending) cl_allow_hooks(cl_innermost(state));
      was_cancelled = cancel_pending = 1;
      hook(cl_innermost(state));
    }
    return;
  }
  state = signal_host;
  if (!state || !pthread_equal(pthread_self(), signal_thread)) {
    if (state && cl_has_wishes()) pthread_kill(signal_thread, number);
    return;
  }
  int is_waiting = signal_is_waiting();
  int ends_entry = !is_waiting && cl_entry_is_unwanted();
  if (ends_entry) entry_pending = 1;
  int has_wishes = cl_has_wishes();
  if (has_wishes) signal_notify();
  lua_State *L = cl_innermost(state);
  if ((ends_entry || has_wishes) && !is_waiting && L) hook(L);
}

// Keeps errno for the interrupted code.
static void on_signal(int number, siginfo_t *info, void *context) {
  (void)context;
  int saved = errno;
  if (number == SIGURG || number == SIGUSR2) heed_urgent(number, info);
  else heed(number, info);
  errno = saved;
}

static void handle(int number, int flags) {
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = flags | SA_SIGINFO};
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, NULL);
}

void cl_watch_dumps(cl_state *state) {
  struct sigaction inherited;
  if (state != signal_host || sigaction(SIGUSR2, NULL, &inherited) != 0 || inherited.sa_handler != SIG_DFL) return;
  handle(SIGUSR2, SA_RESTART);
}

static void handle_urgent(void) {
  is_urgent_needed = 1;
  handle(SIGURG, only_wakes ? 0 : SA_RESTART);
}

void cl_expect_urgent(void) {
  sigset_t urgent;
  sigemptyset(&urgent);
  sigaddset(&urgent, SIGURG);
  handle_urgent();
  pthread_sigmask(SIG_UNBLOCK, &urgent, NULL);
}

void cl_watch_entries(cl_state *state, int (*is_in)(cl_state *state)) {
  if (state != signal_host) return;
  is_in_entry = is_in;
  handle_urgent();
}

void cl_watch_wishes(cl_state *state, int watches) {
  if (state != signal_host) return;
  int was_needed = is_urgent_needed;
  allows_wishes = watches;
  if (watches) handle_urgent();
  else if (!was_needed) signal(SIGURG, SIG_DFL);
  is_urgent_needed = was_needed;
}

uintptr_t cl_accept_cancelling(cl_state *state) {
  cancelled_host = state;
  cl_prepare_hooks();
  cl_expect_urgent();
  return (uintptr_t)pthread_self();
}

void cl_end_cancelling(void) {
  cancelled_host = NULL;
  cancel_pending = 0;
}

void cl_cancel_running(uintptr_t thread) { pthread_kill((pthread_t)thread, SIGURG); }

void cl_let_calls_fail(int fail) {
  only_wakes = fail;
  handle_urgent();
}

static int has_prompt;
void cl_note_prompt(void) { has_prompt = 1; }

void cl_read_script(int reads) {
  // At a prompt, Control-C during the reading of a file must not end the process.
  is_reading = reads && !has_prompt;
}

void cl_defer_signals(int defers) { is_deferring = defers; }

// Makes the host's thread check for requests. Returns 0 if signals are not for this state. May be called on any thread.
static int signal_urgently(cl_state *state) {
  if (state != signal_host) return 0;
  pthread_kill(signal_thread, SIGURG);
  return 1;
}

int cl_end_entries(cl_state *state, uint64_t first, uint64_t last, int how_hard) {
  return cl_press_entries(first, last, how_hard) && signal_urgently(state);
}

void cl_wish(cl_state *state, unsigned wish) {
  cl_note_wish(wish);
  (void)signal_urgently(state);
}

uint64_t cl_entry_runs(uint64_t entry) {
  int was_unwanted = cl_entry_is_unwanted();
  uint64_t before = cl_exchange_entry(entry);
  if (entry_pending) entry_pending = 0;
  if (!entry && was_unwanted) cl_is_guarding = 0;
  return before;
}

void cl_interrupt_entry(cl_state *state, uint64_t entry) {
  cl_want_end_of_entry(entry);
  if (state != signal_host || !cl_entry_is_unwanted()) return;
  entry_pending = 1;
  hook(cl_innermost(state));
}

void cl_hand_interrupt_over(cl_state *state) { hook_running(state); }

void cl_forget_interrupts(void) {
  is_ending = is_to_interrupt = 0;
  cl_is_guarding = 0;
  insistence = 0;
  pending = 0;
  if (signal_host && signal_host->main) cl_prepare_failures(signal_host->main);
}

void cl_drop_signals(cl_state *state) { signal_host = signal_host == state ? NULL : signal_host; }

// An empty handler, so that a write beyond the limit of file sizes fails with EFBIG. Ignoring the signal would have the
// same effect, but child processes would inherit the ignored signal.
static void on_too_large_file(int number) { (void)number; }

void cl_handle_signals(cl_state *state, void (*notify)(void), int (*is_waiting)(void), void (*explain)(cl_state *)) {
  signal_host = state;
  signal_thread = pthread_self();
  signal_notify = notify;
  signal_is_waiting = is_waiting;
  signal_explain = explain;
  struct sigaction inherited;
  // The parent may have ignored these signals on purpose, as nohup does, and as shells do for background jobs.
  static const int ends[] = {SIGINT, SIGTERM, SIGPIPE};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (sigaction(ends[i], NULL, &inherited) == 0 && inherited.sa_handler != SIG_IGN)
      handle(ends[i], i < 2 ? 0 : SA_RESTART);
  handle(SIGQUIT, SA_RESTART);  // SIGQUIT and SIGPIPE do not end a wait
  signal(SIGXFSZ, on_too_large_file);
}
