// Declarations for all files of CSQLite: the library's functions, and the layout of requests and replies.
#pragma once

#include <sqlite3.h>
#include <stdatomic.h>

#include "CSQLite.h"

// All numbers are in the machine's byte order. A request begins with its operation; RUN and BATCH go on with flags.
// RUN: the limits of bytes and rows, the number of parameters, the text, the parameters. LOT, DROP: a cursor. SCRIPT:
// the text. BATCH: requests of RUN, each with its length. OPEN: flags, milliseconds to wait for locks, the path. CLOSE:
// nothing.
enum { REQUEST_OPEN, REQUEST_RUN, REQUEST_LOT, REQUEST_DROP, REQUEST_SCRIPT, REQUEST_BATCH, REQUEST_CLOSE };

enum {
  READS_ONLY = 1,  // refuse what is not a query: REPLY_WRITES
  CONTROLS = 2,    // `begin` and its kin are allowed
  LISTS = 4,       // two columns may have one name
  IN_LOTS = 8,     // leave a cursor if there are more rows
  COUNTS = 16,     // only the number of changed rows matters
};

enum { OPEN_READ_ONLY = 1, OPEN_CREATE = 2, OPEN_MEMORY = 4, OPEN_FULL = 8, OPEN_READER = 16 };

// A reply: its kind. ROWS: cursor, changes, columns with names, rows. FAILURE: code, name, message, index in a batch.
// WRITES: nothing. PARAMETERS: the number that the statement has. COLUMN: a name that two columns have. BATCH: replies
// of ROWS, each with its length.
enum { REPLY_ROWS, REPLY_FAILURE, REPLY_WRITES, REPLY_PARAMETERS, REPLY_COLUMN, REPLY_BATCH, REPLY_NAMED };

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

// Reads a block. `failed` is set at its end.
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
                          each(system_errno) each(stmt_busy)

// The functions of libsqlite3.
typedef struct {
#define EACH(name) __typeof__(sqlite3_##name) *name;
  SQLITE_FUNCTIONS(EACH)
#undef EACH
} sqlite_library;
extern sqlite_library sqlite;

// A connection --------------------------------------------------------------------------------------------------------

enum { STATEMENTS = 100, CURSORS = 64 };

typedef struct {
  char *text;
  size_t length;
  sqlite3_stmt *statement;
  uint64_t used;  // the number of its last use
  int is_taken;
} prepared;

typedef struct {
  uint64_t number;
  prepared *statement;
} cursor;

struct csqlite {
  sqlite3 *db;
  prepared statements[STATEMENTS];
  cursor cursors[CURSORS];
  uint64_t uses, last_cursor;
  int64_t wait;  // milliseconds for the lock of another process
  int64_t waits_until;
  _Atomic uint64_t job, cancelled;
  int is_controlled;  // a transaction has been begun on purpose
  char path[512];
};

void csqlite_put_failure(block *reply, const char *kind, const char *name, const char *message);
// Writes a reply without rows.
void csqlite_put_done(block *reply);
// Writes the connection's last error.
void csqlite_put_error(csqlite *it, block *reply, int code);
// Carries out OPEN.
void csqlite_open(csqlite *it, block_reader *from, block *reply);
