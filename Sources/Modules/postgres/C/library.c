// libpq, and connecting on a thread.
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "private.h"

pq_library pq;
pq_cancel_library pq_cancels;
static const char *problem = "it was never loaded";
static char problem_text[200];

static void load(void) {
  void *library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    problem = "PostgreSQL needs libpq: apt install libpq5";
    return;
  }
#define EACH(name)                                                                                           \
  if (!(pq.name = dlsym(library, #name))) {                                                                  \
    snprintf(problem_text, sizeof problem_text, "this libpq is too old: it has no %s (14 or later)", #name); \
    problem = problem_text;                                                                                  \
    return;                                                                                                  \
  }
  PQ_FUNCTIONS(EACH)
#undef EACH
  pq_cancel_library found = {dlsym(library, "PQcancelCreate"), dlsym(library, "PQcancelStart"),
                             dlsym(library, "PQcancelPoll"),   dlsym(library, "PQcancelSocket"),
                             dlsym(library, "PQcancelReset"),  dlsym(library, "PQcancelFinish")};
  if (found.create && found.start && found.poll && found.socket && found.reset && found.finish) pq_cancels = found;
  problem = NULL;
}

const char *cpostgres_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return problem;
}

// Holders -------------------------------------------------------------------------------------------------------------

static void free_words(char **words) {
  for (char **at = words; at && *at; at++) {
    memset(*at, 0, strlen(*at));
    free(*at);
  }
  free(words);
}

void cpostgres_release(cpostgres *it) {
  if (--it->holders > 0) return;
  if (it->result) pq.PQclear(it->result);
  if (it->connection) pq.PQfinish(it->connection);
  if (it->cancel) pq.PQfreeCancel(it->cancel);
  if (it->cancelling) pq_cancels.finish(it->cancelling);
  free_words(it->names);
  free_words(it->values);
  free(it->failure);
  free(it);
}

// Connecting ----------------------------------------------------------------------------------------------------------

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// Keeps libpq from writing notices to the error output, and learns from them that the server ends the connection.
static void on_notice(void *data, const PGresult *result) {
  cpostgres *it = data;
  const char *severity = pq.PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity && (!strcmp(severity, "FATAL") || !strcmp(severity, "PANIC"))) it->is_ending = 1;
}

// Returns whether the connection is made; sets `failure` otherwise.
static int finish_connecting(cpostgres *it, double limit) {
  PostgresPollingStatusType next = PGRES_POLLING_WRITING;
  while (next != PGRES_POLLING_OK) {
    struct pollfd file = {pq.PQsocket(it->connection), next == PGRES_POLLING_READING ? POLLIN : POLLOUT, 0};
    // Checks at intervals whether the connection is still wanted.
    int is_there = poll(&file, 1, 50) != 0;
    if (it->is_given_up) return 0;
    if (now() > limit) return it->failure = strdup("timed out"), 0;
    if (!is_there) continue;
    next = pq.PQconnectPoll(it->connection);
    if (next == PGRES_POLLING_FAILED) return it->failure = strdup(pq.PQerrorMessage(it->connection)), 0;
  }
  return 1;
}

void cpostgres_connect(cpostgres *it) {
  if (it->is_given_up) return;
  double limit = now() + it->seconds;
  it->connection = pq.PQconnectStartParams((const char *const *)it->names, (const char *const *)it->values, 0);
  if (!it->connection) {
    it->failure = strdup("out of memory");
    return;
  }
  // Gives a refusal its code.
  pq.PQsetErrorVerbosity(it->connection, PQERRORS_VERBOSE);
  pq.PQsetNoticeReceiver(it->connection, on_notice, it);
  if (pq.PQstatus(it->connection) == CONNECTION_BAD) {
    it->failure = strdup(pq.PQerrorMessage(it->connection));
    return;
  }
  if (!finish_connecting(it, limit)) return;
  pq.PQsetErrorVerbosity(it->connection, PQERRORS_DEFAULT);
  pq.PQsetnonblocking(it->connection, 1);
  if (pq_cancels.create) it->cancelling = pq_cancels.create(it->connection);
  else it->cancel = pq.PQgetCancel(it->connection);
  it->is_connected = 1;
}

// Cancelling ----------------------------------------------------------------------------------------------------------

// Seconds within which a server must accept a cancel request.
static const double CANCEL_SECONDS = 2;

// Sends a request with the functions of libpq 17. The functions do not block, and encrypt the request if the connection
// is encrypted.
static void send_request(cpostgres *it) {
  double limit = now() + CANCEL_SECONDS;
  int is_started = pq_cancels.start(it->cancelling);
  PostgresPollingStatusType next = is_started ? PGRES_POLLING_WRITING : PGRES_POLLING_FAILED;
  while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
    struct pollfd file = {pq_cancels.socket(it->cancelling), next == PGRES_POLLING_READING ? POLLIN : POLLOUT, 0};
    int is_there = poll(&file, 1, 50) != 0;
    if (now() > limit || it->is_given_up) break;
    if (is_there) next = pq_cancels.poll(it->cancelling);
  }
  pq_cancels.reset(it->cancelling);
}

void cpostgres_cancel(cpostgres *it) {
  char text[256];
  // A connection that was closed meanwhile needs no request, and PQcancel may block for as long as the server does.
  if (it->is_given_up) return;
  if (it->cancelling) send_request(it);
  else if (it->cancel) pq.PQcancel(it->cancel, text, sizeof text);
}
