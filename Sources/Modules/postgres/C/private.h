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

// The state that all quick calls of a database share.
typedef struct {
  int is_on;  // there are no quick calls otherwise
  int is_list, has_nulls;
  int64_t most;   // limit for the bytes of an answer
  double fresh;   // the seconds after its last use for which a connection is assumed to be open
  int under_way;  // quick calls that wait for an answer
  lua_Integer calls;
} cpostgres_pool;

struct cpostgres {
  _Atomic int holders, is_given_up, is_connected;
  PGconn *connection;
  PGcancel *cancel;
  pq_cancelling *cancelling;  // instead of `cancel`, if libpq has this function
  PGresult *result;           // the statement or copy that is being read
  char **names, **values;     // the settings with which it connects
  double seconds;             // for connecting
  char *failure;              // the reason for which it could not connect
  double used;                // when its last quick call began, in seconds of CLOCK_MONOTONIC
  lua_Integer uses;           // the number of its uses of prepared statements
  struct {                    // the quick call under way
    int is_under_way, kind;
    int is_claimed;      // the connection is no longer among the idle ones
    const char *text;    // on the stack of its coroutine
    lua_Integer record;  // its number
    int64_t changed;     // the rows that it has changed, so far; -1 if it changes none
    cpostgres_pool *pool;
  } quick;
  int keeps_notifications;  // the connection has subscriptions
  int is_ending;            // the server has announced that it closes the connection
  int64_t rows, bytes;      // the part of the answer that was read
  int has_problem;          // the answer has a refusal, or another field that `problem` in connections.lua reads
};

// The conversion of values to Lua, and the limits of an answer.
typedef struct {
  int has_nulls;
  int decode;             // the index of the function that decodes JSON
  int is_list, has_rows;  // rows are lists; the answer has a list of rows
  int each;               // `most` is for each row
  int64_t most, keep;     // the limits: bytes, and rows to keep
  lua_Integer placed;     // rows in the list
  int answer;             // the index of the answer's table; if nil is there, the table is made when it is needed
  int rows, names;        // the indices of their lists, with `has_rows`
  int value;              // the index for the first value; 0 for the field `value` of the answer
  int counts;             // whether `count` is wanted
  int64_t count;          // the rows that the statement has changed; -1 if it changes none
} value_options;

enum { BYTES_CLASS = 1, DECODE = 2 };  // upvalues of the functions for Lua

// Pushes a value that the server has sent as text.
void cpostgres_push(lua_State *L, const value_options *options, Oid type, const char *text, size_t length);

// refused(text, all_escapes) -> the word of the first statement that a script or a batch must not contain: one that
// controls a transaction, or a copy to or from the client; nil if there is none. `all_escapes`: each quoted text may
// have escapes.
int cpostgres_refused(lua_State *L);

// Whether the connection, which must be idle, is still open.
int cpostgres_is_alive(cpostgres *it);
// Whether the connection has input, or has ended.
int cpostgres_is_readable(cpostgres *it);
// Drops notifications, which a statement of the script has asked for: libpq would keep them as long as the connection.
void cpostgres_drop_notifications(cpostgres *it);
// Sends a prepared statement with `count` parameters, from the index 3 on; rows arrive one by one. Returns the result
// of PQflush; PARAMETER_REFUSED if a parameter is refused, or there are too many: then nothing was sent.
int cpostgres_execute(lua_State *L, cpostgres *it, const char *name, size_t count);
enum { PARAMETER_REFUSED = -2 };
// The states of an answer: see cpostgres_poll. OVER is DONE for a whole answer without a problem, after which no
// transaction is open.
typedef enum { READING, OVER, DONE, MORE, UNREAD, LOST, STOPPED, COPYING, SYNCED } answer_state;
extern const char *const cpostgres_states[];
// Takes what has come of an answer.
answer_state cpostgres_receive(lua_State *L, cpostgres *it, value_options *options);
// poll(answer, lists, nulls, most bytes, rows to keep, whether `most` is for each row) -> "done" after an answer;
// "more" if it has to wait for input; "unread" if there is input already, which the loop's next pass may take;
// "lost"; "stopped"; "copy"; "synced". Rows go to answer.rows, and their names to answer.names; without these tables,
// the first value goes to answer.value.
int cpostgres_poll(lua_State *L);

// Quick calls: see quick.c.
// pool(idle connections, lists, nulls, most bytes, seconds) -> the state that all quick calls of a database share
int cpostgres_new_pool(lua_State *L);
// quick(kind, slow, take_over, begins, ends, label) -> a method of databases
int cpostgres_new_quick(lua_State *L);
// on(on_end, on_cancel) sets the functions that get the connection in Lua when a claimed call ends, and when the task
// of a quick call is cancelled
int cpostgres_on(lua_State *L);
// Adds methods to the class of connections, which is at the top of the stack.
void cpostgres_add_quick_methods(lua_State *L);
// The values of the userdata of a connection: the connection in Lua, and the coroutine that waits in a quick call.
enum { OWNER = 1, TASK, CONNECTION_VALUES = TASK };

// The functions and methods of connection.c.
extern const luaL_Reg cpostgres_functions[], cpostgres_methods[];

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
// end_copy(reason) ends the data: the server stores it, or, with a reason, discards it. Returns what put_copy returns
int cpostgres_end_copy(lua_State *L);
// get_copy() -> bytes; false if no more bytes have come yet; nothing at the end
int cpostgres_get_copy(lua_State *L);
