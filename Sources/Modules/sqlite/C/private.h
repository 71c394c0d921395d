// Declarations for all files of CSQLite: the library's functions, and the layout of requests and replies.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "CSQLite.h"

// All numbers are in the machine's byte order. A request begins with its operation and its flags. RUN: the limits of
// bytes and rows, the number of parameters, the text, the parameters. LOT, DROP: a cursor; LOT has a limit of bytes.
// SCRIPT: the text. BATCH: requests of RUN, each with its length. OPEN: milliseconds to wait for locks, the path. GIVE:
// nothing.
enum { REQUEST_OPEN, REQUEST_RUN, REQUEST_LOT, REQUEST_DROP, REQUEST_SCRIPT, REQUEST_BATCH, REQUEST_GIVE };

enum {
  READS_ONLY = 1,       // refuse statements that are not queries: REPLY_WRITES
  CONTROLS = 2,         // `begin` and similar statements are allowed
  LISTS = 4,            // two columns may have one name
  IN_LOTS = 8,          // leave a cursor open if there are more rows, and take the connection for it
  COUNTS = 16,          // only the number of changed rows matters
  TAKES = 32,           // take the connection if the statement succeeds
  IN_TRANSACTION = 64,  // fail if no transaction is open any more: some failures end one
  NULLS = 128,          // in a batch, for the reader of the reply: it wants a value of its own for NULL
};

enum { OPEN_READ_ONLY = 1, OPEN_CREATE = 2, OPEN_MEMORY = 4, OPEN_FULL = 8, OPEN_READER = 16 };

// A reply: its kind. ROWS: cursor, changes, columns with names, rows. FAILURE: code, name, message, index in a batch.
// WRITES: nothing. PARAMETERS: the number that the statement has. COLUMN: a name that two columns have. BATCH: replies
// of ROWS, each with the flags of its request and its length. LATE: no connection was free in time. CLOSED: the pool is
// closed.
enum {
  REPLY_ROWS,
  REPLY_FAILURE,
  REPLY_WRITES,
  REPLY_PARAMETERS,
  REPLY_COLUMN,
  REPLY_BATCH,
  REPLY_NAMED,
  REPLY_LATE,
  REPLY_CLOSED,
};

enum { VALUE_NIL, VALUE_INTEGER, VALUE_FLOAT, VALUE_TEXT, VALUE_BYTES };

typedef struct {
  char *bytes;
  size_t length, capacity;
  int failed;
} block;

void block_put(block *to, const void *bytes, size_t length);
void block_byte(block *to, int value);
void block_number(block *to, uint64_t value);
void block_text(block *to, const char *text, size_t length);

// Reads a block. `failed` is set by a read beyond the block's end.
typedef struct {
  const char *at, *end;
  int failed;
} block_reader;

int read_byte(block_reader *from);
uint64_t read_number(block_reader *from);
const char *read_text(block_reader *from, size_t *length);

#define SQLITE_FUNCTIONS(each)                                                                                        \
  each(open_v2) each(close_v2) each(errmsg) each(extended_errcode) each(extended_result_codes) each(prepare_v3)       \
      each(finalize) each(step) each(reset) each(clear_bindings) each(bind_null) each(bind_int64) each(bind_double)   \
          each(bind_text64) each(bind_blob64) each(bind_parameter_count) each(bind_parameter_name) each(column_count) \
              each(column_name) each(column_type) each(column_int64) each(column_double) each(column_text)            \
                  each(column_blob) each(column_bytes) each(stmt_readonly) each(total_changes) each(changes)          \
                      each(get_autocommit) each(exec) each(busy_handler) each(progress_handler) each(db_config)       \
                          each(system_errno) each(db_status) each(last_insert_rowid) each(set_last_insert_rowid)      \
                              each(stmt_status)

// The functions of libsqlite3.
typedef struct {
#define EACH(name) __typeof__(sqlite3_##name) *name;
  SQLITE_FUNCTIONS(EACH)
#undef EACH
} sqlite_library;
extern sqlite_library sqlite;

// A connection --------------------------------------------------------------------------------------------------------

enum { STATEMENTS = 100, CURSORS = 64, PATH_SIZE = 512 };

typedef struct {
  size_t length;
  sqlite3_stmt *statement;
  uint64_t used;  // the number of its last use
  int is_taken, is_control, is_query;
  int is_write;    // it changes rows, and does not use the counts of changed rows of earlier statements
  int parameters;  // the number of its parameters; -1 if one has a name
  int is_direct;   // parameter $1 is the first one, and so on
  char text[];
} prepared;

typedef struct {
  uint64_t number;
  prepared *statement;
  int is_shared;  // its loop has not reserved the connection
} cursor;

// A job ---------------------------------------------------------------------------------------------------------------

enum { JOB_WAITS, JOB_RUNS, JOB_DONE };

struct csqlite_job {
  csqlite_job *next;
  csqlite *on;    // the connection that runs it
  intptr_t task;  // 0: nobody waits for it
  lua_State *coroutine;
  uint64_t number;            // in the order in which jobs come
  int64_t connection, until;  // see csqlite_pool_add
  int64_t added, since;       // when it was made and when it began to run, in ms
  uint64_t record, rows;      // the record of its call, 0 if it has none; how many rows it has returned or changed
  int64_t taken;              // the number of the connection that it has taken; 0 if none
  int lane, state, lent;
  int is_alone;  // it must not share a commit again: its group was given up
  _Atomic int is_abandoned;
  block reply;
  size_t length;
  char request[];
};

// Replies are kept back while further replies are likely to follow soon: waking the loop takes longer than many
// statements, and a commit takes longer than most writes.
enum { MOST_KEPT = 64, MOST_MICROSECONDS = 200 };

typedef struct {
  csqlite_job *first, *last;
  int count;
} job_list;

struct csqlite_pool {
  pthread_mutex_t mutex;  // guards everything below but `pending`
  job_list queue, done;
  csqlite **connections;  // `size` places
  int size, count, threads, users, cancelled, is_closed;
  uint64_t last_handed;  // the number of the last job in the queue
  int64_t made;          // connections made so far
  unsigned rung;         // the lanes for which the loop was woken, one bit each
  csqlite_job *closing;  // done when all connections are closed
  block opening;
  csqlite_host host;
  _Atomic int queued;  // the number of jobs in the queue, which connections read without the mutex
  // The loop's own.
  job_list pending;
  uint64_t last_number;
};

struct csqlite {
  csqlite_pool *pool;
  // Called while a statement runs: hands over the replies of done jobs, and lets another connection take waiting ones.
  void (*look)(csqlite *);
  int64_t number;
  sem_t signal;
  job_list own;          // jobs of the transaction or the rows for which the connection is taken
  csqlite_job *current;  // the job that was taken from a list last
  int is_idle, is_taken, is_leaving;
  // The thread's own.
  job_list done;
  uint64_t snapshot;  // jobs up to this number may see the snapshot of the open transaction; 0: no transaction is open
  uint64_t last_handed;
  int has_more;
  int64_t kept_since;  // when the first of `done` began, in µs
  int64_t began;       // when the present write began, in µs
  // Writes that have run in an open transaction, whose commit they share. Jobs up to the number `group_until` may join.
  job_list group;
  uint64_t group_until;
  int64_t group_since;  // µs
  int64_t group_rowid;  // the last row that was inserted before
  int has_group;

  sqlite3 *db;
  sqlite3_stmt *begin, *end, *commit;
  prepared *statements[STATEMENTS];
  int statement_count;
  cursor *cursors;  // CURSORS; NULL before the first one
  uint64_t uses, last_cursor;
  int is_memory;  // the database is gone with the connection
  uint64_t rows;  // which the present job has returned or changed
  int64_t wait;   // milliseconds for the lock of another process
  int64_t waits_until;
  csqlite_job *running;      // NULL between jobs, and during a commit for several of them
  int failure;               // SQLite's code for the last error of the present job; 0 if it has none
  _Atomic uint64_t stopped;  // jobs up to this number must not go on
  char *path;
};

// Returns the lent job at an index of the stack; NULL for other values.
csqlite_job *csqlite_lent_at(lua_State *L, int index, int how);

void csqlite_append(job_list *list, csqlite_job *job);
void csqlite_append_all(job_list *list, job_list *other);
csqlite_job *csqlite_remove_first(job_list *list);
// Returns 0 if the job is not in the list.
int csqlite_remove_job(job_list *list, csqlite_job *job);
void csqlite_free_all(job_list *list);
// Appends the tasks of jobs to the `count` tasks in `to`, which has room for `most`. Returns the new number of tasks.
int csqlite_note_tasks(const csqlite_job *job, intptr_t *to, int count, int most);
// Returns whether a coroutine waits for a job, which may be NULL.
int csqlite_is_of(const csqlite_job *job, lua_State *coroutine);
const csqlite_job *csqlite_find_job(const job_list *list, lua_State *coroutine);
// Returns the text of a job's first statement; NULL if it has none.
const char *csqlite_text_of(const csqlite_job *job, size_t *length);

// Carries out a request, and writes the reply.
void csqlite_carry_out(csqlite *it, const char *request, size_t length, block *reply);
// Puts a connection into the state in which it was taken: without cursors and transactions.
void csqlite_reset(csqlite *it);
void csqlite_close_database(csqlite *it);
// Lets the queries that follow see one state of the database, until csqlite_end_snapshot.
void csqlite_begin_snapshot(csqlite *it);
void csqlite_end_snapshot(csqlite *it);
void csqlite_put_failure(block *reply, const char *kind, const char *name, const char *message);
// Notes in a reply which statement of a batch has failed.
void csqlite_put_index(block *reply, uint64_t index);
// Writes a reply without rows.
void csqlite_put_done(block *reply);
// Writes the connection's last error.
void csqlite_put_error(csqlite *it, block *reply, int code);
// Runs a statement without rows, which is prepared at its first use. Returns SQLite's code.
int csqlite_step_once(csqlite *it, sqlite3_stmt **statement, const char *text);
// Returns whether a job's statement changes rows. Returns 0 for a statement that is not prepared yet.
int csqlite_is_write(csqlite *it, const csqlite_job *job);

// Returns whether a job may run in a transaction with others.
int csqlite_may_share(csqlite *it, const csqlite_job *job);
// Begins a transaction for the next job and further ones.
void csqlite_begin_group(csqlite *it);
// Adds a job that has run in the group's transaction. If the group ends, its jobs are in `done`, or in the queue again.
void csqlite_add_to_group(csqlite *it, csqlite_job *job);
// Ends the group, if there is one. Returns 0 if the group's jobs are in the queue again, with `next` (or NULL) behind
// them.
int csqlite_end_group(csqlite *it, csqlite_job *next);
// Returns whether nobody waits any more for the job that runs.
int csqlite_is_cancelled(const csqlite *it);
int64_t csqlite_microseconds(void);

// Carries out OPEN.
void csqlite_open(csqlite *it, int flags, block_reader *from, block *reply);
