// Declarations for all files of CPostgres: the library's functions, and the connection.
#pragma once

#include <lauxlib.h>
#include <postgresql/libpq-fe.h>
#include <stdatomic.h>

#include "CPostgres.h"

#define PQ_FUNCTIONS(each)                                                                                            \
  each(PQconnectStartParams) each(PQconnectPoll) each(PQfinish) each(PQstatus) each(PQsocket) each(PQerrorMessage)    \
      each(PQsetErrorVerbosity) each(PQsetnonblocking) each(PQflush) each(PQconsumeInput) each(PQisBusy)              \
          each(PQgetResult) each(PQclear) each(PQresultStatus) each(PQresultErrorField) each(PQntuples)               \
              each(PQnfields) each(PQfname) each(PQftype) each(PQgetisnull) each(PQgetvalue) each(PQgetlength)        \
                  each(PQcmdTuples) each(PQcmdStatus) each(PQsetSingleRowMode) each(PQsendQuery)                      \
                      each(PQsendQueryParams) each(PQsendPrepare) each(PQsendQueryPrepared) each(PQtransactionStatus) \
                          each(PQparameterStatus) each(PQbackendPID) each(PQgetCancel) each(PQfreeCancel)             \
                              each(PQcancel) each(PQsetNoticeReceiver) each(PQenterPipelineMode)                      \
                                  each(PQexitPipelineMode) each(PQpipelineSync) each(PQconninfoParse)                 \
                                      each(PQconndefaults) each(PQconninfoFree) each(PQfreemem)                       \
                                          each(PQresultErrorMessage) each(PQnotifies) each(PQputCopyData)             \
                                              each(PQputCopyEnd) each(PQgetCopyData) each(PQsendFlushRequest)

// Functions that libpq has since version 17.
typedef struct pq_cancelling pq_cancelling;
typedef struct {
  pq_cancelling *(*create)(PGconn *);
  int (*start)(pq_cancelling *);
  PostgresPollingStatusType (*poll)(pq_cancelling *);
  int (*socket)(const pq_cancelling *);
  void (*reset)(pq_cancelling *);
  void (*finish)(pq_cancelling *);
} pq_cancel_library;
extern pq_cancel_library pq_cancels;

// The functions of libpq.
typedef struct {
#define EACH(name) __typeof__(name) *name;
  PQ_FUNCTIONS(EACH)
#undef EACH
} pq_library;
extern pq_library pq;

struct cpostgres {
  _Atomic int holders, is_given_up, is_connected;
  PGconn *connection;
  PGcancel *cancel;
  pq_cancelling *cancelling;  // instead of `cancel`, if libpq has this function
  PGresult *result;           // the statement or copy that is being read
  char **names, **values;     // the settings with which it connects
  double seconds;             // for connecting
  char *failure;              // the reason for which it could not connect
  int keeps_notifications;    // the connection has subscriptions
  int is_ending;              // the server has announced that it closes the connection
  int64_t rows, bytes;        // the part of the answer that was read
  int has_problem;            // the answer has a refusal, or another field that `problem` in connections.lua reads
};

// The conversion of values to Lua, and the limits of an answer.
typedef struct {
  int has_nulls;
  int decode;             // the index of the function that decodes JSON
  int is_list, has_rows;  // rows are lists; the answer has a list of rows
  int each;               // `most` is for each row
  int64_t most, keep;     // bytes, and rows
  lua_Integer placed;     // rows in the list
} value_options;

// Pushes a value that the server has sent as text.
void cpostgres_push(lua_State *L, const value_options *options, Oid type, const char *text, size_t length);

// refused(text, all_escapes) -> the word of the first statement that a script or a batch must not contain: one that
// controls a transaction, or a copy to or from the client; nil if there is none. `all_escapes`: each quoted text may
// have escapes.
int cpostgres_refused(lua_State *L);

#define CPOSTGRES_CLASS "runloop.postgres.native"

static inline cpostgres **cpostgres_holder(lua_State *L) { return luaL_checkudata(L, 1, CPOSTGRES_CLASS); }

// Returns the connection at 1, which must be open.
static inline cpostgres *cpostgres_self(lua_State *L) {
  cpostgres *it = *cpostgres_holder(L);
  if (!it || !it->is_connected) luaL_error(L, "the connection is closed");
  return it;
}

// put_copy(bytes) -> whether libpq has taken them; nil if the connection is lost
int cpostgres_put_copy(lua_State *L);
// end_copy(reason) ends the data: the server stores it, or, with a reason, discards it. Returns as put_copy
int cpostgres_end_copy(lua_State *L);
// get_copy() -> bytes; false if no more bytes have come yet; nothing at the end
int cpostgres_get_copy(lua_State *L);
