// Finds the code position of a cancelled thread that does not notice the cancellation because it is in a C function,
// which nothing can interrupt.
#define _GNU_SOURCE
#include "private.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// The call that ran when this thread was cancelled, and the time of the cancellation.
static _Thread_local struct CallInfo *noted_call;
static _Thread_local struct timespec noted_at;

// Runs in the signal handler. Only stores the address of the innermost call and does not read its record: the signal
// may have come while Lua was filling in the record.
void cl_note_call(lua_State *L, int is_new) {
  lua_Debug debug;
  struct CallInfo *call = lua_getstack(L, 0, &debug) ? debug.i_ci : NULL;
  if (!is_new && call == noted_call) return;
  noted_call = call;
  clock_gettime(CLOCK_MONOTONIC, &noted_at);
}

// Only one thread is asked at a time.
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
static struct {
  _Atomic int state;
  pthread_t thread;
  cl_whereabouts answer;
} question;
enum { NONE, ASKED, ANSWERING, ANSWERED };

static void answer(cl_state *state, int is_pending) {
  cl_whereabouts *to = &question.answer;
  lua_State *L = cl_innermost(state);
  lua_Debug debug;
  // Go on only if the innermost call is the noted one, and Lua has executed no instruction since it was noted. So the
  // call's record is complete, and the call cannot end meanwhile.
  if (!is_pending || !L || !noted_call || !lua_getstack(L, 0, &debug) || debug.i_ci != noted_call) return;
  if (!lua_getinfo(L, "nS", &debug) || *debug.what != 'C') return;
  if (debug.name) snprintf(to->function, sizeof to->function, "%s", debug.name);
  to->line = cl_place(L, to->source);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  to->nanoseconds = (int64_t)(now.tv_sec - noted_at.tv_sec) * 1000000000 + (now.tv_nsec - noted_at.tv_nsec);
}

int cl_answer_where(cl_state *state, const siginfo_t *info, int is_pending) {
  if (info->si_code != SI_QUEUE || info->si_value.sival_ptr != &question || info->si_pid != getpid()) return 0;
  int asked = ASKED;
  if (!pthread_equal(question.thread, pthread_self())) return 1;
  if (!atomic_compare_exchange_strong_explicit(&question.state, &asked, ANSWERING, memory_order_seq_cst,
                                               memory_order_seq_cst))
    return 1;
  answer(state, is_pending);
  atomic_store_explicit(&question.state, ANSWERED, memory_order_seq_cst);
  return 1;
}

// Lua's name for a called function does not contain its library. Adds the library to names that occur in one library
// only.
static void add_library(char *name, size_t size) {
  static const char *const libraries[][2] = {
      {"string", " byte dump find format gmatch gsub lower match rep reverse sub upper "},
      {"table", " concat insert move sort "},
      {"os", " execute "},
      {"io", " popen "}};
  char word[64], whole[64];
  if (strchr(name, ' ') || snprintf(word, sizeof word, " %s ", name) >= (int)sizeof word) return;
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    if (!strstr(libraries[i][1], word)) continue;
    snprintf(whole, sizeof whole, "%s.%.40s", libraries[i][0], name);
    snprintf(name, size, "%s", whole);
    return;
  }
}

int cl_where_cancelled(uintptr_t thread, cl_whereabouts *whereabouts) {
  enum { PATIENCE_MICROSECONDS = 50000, STEP_MICROSECONDS = 200 };
  pthread_mutex_lock(&asking);
  question.thread = (pthread_t)thread;
  question.answer = (cl_whereabouts){.line = 0};
  atomic_store_explicit(&question.state, ASKED, memory_order_seq_cst);
  int asked = ASKED;
  if (pthread_sigqueue((pthread_t)thread, SIGURG, (union sigval){.sival_ptr = &question}) == 0)
    for (int i = 0; i < PATIENCE_MICROSECONDS / STEP_MICROSECONDS && question.state != ANSWERED; i++)
      usleep(STEP_MICROSECONDS);
  // Withdraw the question if the thread has not begun to answer. Otherwise the thread is writing its answer: wait for
  // it.
  if (!atomic_compare_exchange_strong_explicit(&question.state, &asked, NONE, memory_order_seq_cst,
                                               memory_order_seq_cst))
    while (question.state != ANSWERED) usleep(STEP_MICROSECONDS);
  *whereabouts = question.answer;
  question.state = NONE;
  pthread_mutex_unlock(&asking);
  add_library(whereabouts->function, sizeof whereabouts->function);
  return whereabouts->line != 0 || *whereabouts->function;
}
