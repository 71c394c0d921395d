// A connection on its thread: statements that are kept prepared, cursors, and the requests.
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

#include "private.h"

enum { LOT_ROWS = 256, LOT_BYTES = 64 * 1024 };

static void forget(prepared *it) {
  sqlite.finalize(it->statement);
  free(it);
}

void csqlite_close_database(csqlite *it) {
  while (it->statement_count > 0) forget(it->statements[--it->statement_count]);
  free(it->cursors);
  it->cursors = NULL;
  if (!it->db) return;
  sqlite.finalize(it->begin);
  sqlite.finalize(it->end);
  sqlite.finalize(it->commit);
  sqlite.close_v2(it->db);
  it->db = NULL;
}

// Statements ----------------------------------------------------------------------------------------------------------

static int is_word(char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

// Skips blanks, comments and semicolons. Returns the address of the first byte after these.
static const char *skip_blanks(const char *at, const char *end) {
  while (at < end) {
    if (strchr(" \t\r\n\v\f;", *at) && *at) {
      at++;
    } else if (end - at >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0) {
      // For SQLite, a byte order mark is a blank, too.
      at += 3;
    } else if (end - at >= 2 && at[0] == '-' && at[1] == '-') {
      while (at < end && *at != '\n') at++;
    } else if (end - at >= 2 && at[0] == '/' && at[1] == '*') {
      const char *close = memmem(at + 2, (size_t)(end - at - 2), "*/", 2);
      at = close ? close + 2 : end;
    } else {
      break;
    }
  }
  return at;
}

// Returns the first word of a text if it is one of `words`; else NULL.
static const char *begins_with(const char *text, size_t length, const char *const *words) {
  const char *at = skip_blanks(text, text + length), *end = at;
  while (end < text + length && is_word(*end)) end++;
  for (; *words; words++)
    if (strlen(*words) == (size_t)(end - at) && strncasecmp(*words, at, (size_t)(end - at)) == 0) return *words;
  return NULL;
}

static const char *const QUERIES[] = {"select", "values", "with", "explain", NULL};
static const char *const CONTROL[] = {"begin", "commit", "end", "rollback", "savepoint", "release", NULL};

static const char *const WRITES[] = {"insert", "update", "delete", "replace", "with", NULL};

static prepared *find_statement(csqlite *it, const char *text, size_t length) {
  for (int i = 0; i < it->statement_count; i++) {
    prepared *one = it->statements[i];
    if (!one->is_taken && one->length == length && memcmp(one->text, text, length) == 0) return one;
  }
  return NULL;
}

// Returns a slot for a further statement. If all slots are taken, drops the least recently used statement.
static prepared **place_for_statement(csqlite *it) {
  if (it->statement_count < STATEMENTS) return &it->statements[it->statement_count++];
  prepared **oldest = NULL;
  for (int i = 0; i < STATEMENTS; i++) {
    prepared **one = &it->statements[i];
    if (!(*one)->is_taken && (!oldest || (*one)->used < (*oldest)->used)) oldest = one;
  }
  if (oldest) forget(*oldest);
  return oldest;
}

// Returns the number of the parameter at an index of SQLite: "$2" is number 2 wherever it stands. Returns -1 for a
// name.
static int number_of_parameter(sqlite3_stmt *statement, int index) {
  const char *name = sqlite.bind_parameter_name(statement, index);
  if (!name || name[0] == '?') return index;
  char *end;
  long number = strtol(name + 1, &end, 10);
  return name[0] == '$' && name[1] >= '1' && name[1] <= '9' && !*end && number < 100000 ? (int)number : -1;
}

static void note_parameters(prepared *one) {
  one->is_direct = 1;
  for (int i = sqlite.bind_parameter_count(one->statement); i >= 1; i--) {
    int number = number_of_parameter(one->statement, i);
    if (number < 0) one->parameters = -1;
    else if (one->parameters >= 0 && number > one->parameters) one->parameters = number;
    if (number != i) one->is_direct = 0;
  }
}

// Returns whether a text may call changes() or total_changes(), which also count what is rolled back.
static int has_changes(const char *text, size_t length) {
  static const char word[] = "changes";
  for (size_t i = 0; i + sizeof word - 1 <= length; i++)
    if (strncasecmp(text + i, word, sizeof word - 1) == 0) return 1;
  return 0;
}

// Keeps a statement. Without memory, ends the statement and returns NULL.
static prepared *keep(csqlite *it, sqlite3_stmt *statement, const char *text, size_t length) {
  prepared *one = calloc(1, sizeof *one + length), **place = one ? place_for_statement(it) : NULL;
  if (!place) {
    free(one);
    sqlite.finalize(statement);
    return NULL;
  }
  one->length = length;
  one->statement = statement;
  one->is_control = begins_with(text, length, CONTROL) != NULL;
  one->is_query = begins_with(text, length, QUERIES) && sqlite.stmt_readonly(statement);
  one->is_write = begins_with(text, length, WRITES) && !sqlite.stmt_readonly(statement) && !has_changes(text, length);
  memcpy(one->text, text, length);
  note_parameters(one);
  return *place = one;
}

// Returns a prepared statement, or NULL after it has written the failure.
static prepared *prepare(csqlite *it, const char *text, size_t length, block *reply) {
  if (memchr(text, 0, length)) {
    csqlite_put_failure(reply, "EINVAL", "SQLITE_ERROR", "the statement has a zero byte");
    return NULL;
  }
  const char *end = text + length, *rest = NULL;
  sqlite3_stmt *statement = NULL, *second = NULL;
  int code = sqlite.prepare_v3(it->db, text, (int)length, SQLITE_PREPARE_PERSISTENT, &statement, &rest);
  if (code != SQLITE_OK) {
    csqlite_put_error(it, reply, code);
    return NULL;
  }
  if (!statement) {
    csqlite_put_failure(reply, "EINVAL", "SQLITE_ERROR", "the statement is empty");
    return NULL;
  }
  rest = skip_blanks(rest, end);
  if (rest < end) {
    int is_more = sqlite.prepare_v3(it->db, rest, (int)(end - rest), 0, &second, NULL) != SQLITE_OK || second;
    if (second) sqlite.finalize(second);
    if (is_more) {
      sqlite.finalize(statement);
      csqlite_put_failure(reply, "EINVAL", "SQLITE_ERROR", "more than one statement: use script()");
      return NULL;
    }
  }
  prepared *kept = keep(it, statement, text, length);
  if (!kept) csqlite_put_failure(reply, "ENOSPC", "SQLITE_NOMEM", "out of memory");
  return kept;
}

int csqlite_is_write(csqlite *it, const csqlite_job *job) {
  size_t length;
  const char *text = csqlite_text_of(job, &length);
  const prepared *found = find_statement(it, text, length);
  return found && found->is_write;
}

// Binds the next value. `keep`: SQLITE_STATIC if texts stay as long as the statement runs.
static int bind(sqlite3_stmt *statement, int index, block_reader *from, sqlite3_destructor_type keep) {
  size_t length;
  double number;
  uint64_t bits;
  switch (read_byte(from)) {
    case VALUE_INTEGER: return sqlite.bind_int64(statement, index, (sqlite3_int64)read_number(from));
    case VALUE_FLOAT:
      bits = read_number(from);
      memcpy(&number, &bits, sizeof number);
      return sqlite.bind_double(statement, index, number);
    case VALUE_TEXT: {
      const char *text = read_text(from, &length);
      return sqlite.bind_text64(statement, index, text, length, keep, SQLITE_UTF8);
    }
    case VALUE_BYTES: {
      const char *bytes = read_text(from, &length);
      return sqlite.bind_blob64(statement, index, bytes, length, keep);
    }
    default: return sqlite.bind_null(statement, index);
  }
}

static void skip_value(block_reader *from) {
  size_t length;
  int kind = read_byte(from);
  if (kind == VALUE_INTEGER || kind == VALUE_FLOAT) read_number(from);
  else if (kind != VALUE_NIL) read_text(from, &length);
}

// Binds parameters that stand in another order, or more than once.
static int bind_by_number(sqlite3_stmt *statement, block_reader *from, uint64_t count, sqlite3_destructor_type keep) {
  int indexes = sqlite.bind_parameter_count(statement), code = SQLITE_OK;
  for (uint64_t k = 1; k <= count && code == SQLITE_OK; k++) {
    block_reader value = *from;
    skip_value(from);
    for (int i = 1; i <= indexes && code == SQLITE_OK; i++) {
      block_reader again = value;
      if (number_of_parameter(statement, i) == (int)k) code = bind(statement, i, &again, keep);
    }
  }
  return code;
}

static void put_named(sqlite3_stmt *statement, block *reply) {
  for (int i = 1;; i++) {
    if (number_of_parameter(statement, i) >= 0) continue;
    const char *name = sqlite.bind_parameter_name(statement, i);
    block_byte(reply, REPLY_NAMED);
    block_text(reply, name, strlen(name));
    return;
  }
}

// Binds the parameters. After an error, writes it and returns 0.
static int bind_all(csqlite *it, prepared *one, int flags, block_reader *from, uint64_t count, block *reply) {
  if (one->parameters < 0) return put_named(one->statement, reply), 0;
  if ((uint64_t)one->parameters != count) {
    block_byte(reply, REPLY_PARAMETERS);
    block_number(reply, (uint64_t)one->parameters);
    return 0;
  }
  // A cursor lives longer than its request, so SQLite copies the texts.
  sqlite3_destructor_type keep = flags & IN_LOTS ? SQLITE_TRANSIENT : SQLITE_STATIC;
  int code = one->is_direct ? SQLITE_OK : bind_by_number(one->statement, from, count, keep);
  for (int i = 1; one->is_direct && i <= (int)count && code == SQLITE_OK; i++)
    code = bind(one->statement, i, from, keep);
  if (code != SQLITE_OK) csqlite_put_error(it, reply, code);
  return code == SQLITE_OK;
}

static void release(prepared *it) {
  sqlite.reset(it->statement);
  // Bound texts are parts of the request, which is freed.
  sqlite.clear_bindings(it->statement);
  it->is_taken = 0;
}

// Rows ----------------------------------------------------------------------------------------------------------------

static size_t put_row(sqlite3_stmt *statement, int columns, block *reply) {
  size_t before = reply->length;
  double number;
  uint64_t bits;
  for (int i = 0; i < columns; i++) {
    switch (sqlite.column_type(statement, i)) {
      case SQLITE_INTEGER:
        block_byte(reply, VALUE_INTEGER);
        block_number(reply, (uint64_t)sqlite.column_int64(statement, i));
        break;
      case SQLITE_FLOAT:
        block_byte(reply, VALUE_FLOAT);
        number = sqlite.column_double(statement, i);
        memcpy(&bits, &number, sizeof bits);
        block_number(reply, bits);
        break;
      case SQLITE_TEXT:
      case SQLITE_BLOB: {
        block_byte(reply, VALUE_TEXT);
        const char *bytes = sqlite.column_type(statement, i) == SQLITE_TEXT
                                ? (const char *)sqlite.column_text(statement, i)
                                : sqlite.column_blob(statement, i);
        block_text(reply, bytes ? bytes : "", (size_t)sqlite.column_bytes(statement, i));
        break;
      }
      default: block_byte(reply, VALUE_NIL);
    }
  }
  return reply->length - before;
}

// Returns whether the columns may be read by name; if not, writes the name that two of them share.
static int check_columns(sqlite3_stmt *statement, block *reply) {
  int columns = sqlite.column_count(statement);
  for (int i = 0; i < columns; i++)
    for (int k = 0; k < i; k++)
      if (strcmp(sqlite.column_name(statement, i), sqlite.column_name(statement, k)) == 0) {
        const char *name = sqlite.column_name(statement, i);
        block_byte(reply, REPLY_COLUMN);
        block_text(reply, name, strlen(name));
        return 0;
      }
  return 1;
}

static cursor *free_cursor(csqlite *it) {
  if (!it->cursors) it->cursors = calloc(CURSORS, sizeof *it->cursors);
  if (!it->cursors) return NULL;
  for (int i = 0; i < CURSORS; i++)
    if (!it->cursors[i].statement) return &it->cursors[i];
  return NULL;
}

// The settings and limits of one run of a statement.
typedef struct {
  int flags;
  uint64_t most_bytes, most_rows;
  int before;  // the number of changes that the connection had made before this run
} run;

// Ends a statement, and undoes what it has changed.
static void undo(csqlite *it, prepared *statement) {
  int is_change = !sqlite.stmt_readonly(statement->statement);
  // Without this transaction, the release of the statement would commit its changes.
  if (is_change && sqlite.get_autocommit(it->db)) sqlite.exec(it->db, "begin", NULL, NULL, NULL);
  release(statement);
  if (is_change) sqlite.exec(it->db, "rollback", NULL, NULL, NULL);
}

// Ends a statement whose rows are too large.
static void give_up(csqlite *it, prepared *statement, const run *how, block *reply) {
  char text[120];
  snprintf(text, sizeof text, "the rows have more than %llu bytes: %s", (unsigned long long)how->most_bytes,
           how->flags & IN_LOTS ? "give a larger max" : "use rows()");
  undo(it, statement);
  csqlite_put_failure(reply, "EMSGSIZE", "SQLITE_TOOBIG", text);
}

// Takes the first step of a run. If the schema has changed, also by another connection, SQLite prepares the statement
// again in this step, perhaps with other columns. Returns SQLite's code; -1 if two columns have one name: then the
// reply says so, and the statement has ended.
static int step_first(csqlite *it, prepared *statement, const run *how, block *reply) {
  sqlite3_stmt *stmt = statement->statement;
  int code = sqlite.step(stmt), is_new = sqlite.stmt_status(stmt, SQLITE_STMTSTATUS_REPREPARE, 1);
  if (how->flags & (LISTS | COUNTS) || !(is_new || sqlite.stmt_readonly(stmt))) return code;
  if (check_columns(stmt, reply)) return code;
  undo(it, statement);
  return -1;
}

// Steps through the statement. If the rows are read in lots, stops after a lot; the statement then stays in `place`.
static void step_all(csqlite *it, prepared *statement, cursor *place, const run *how, block *reply) {
  sqlite3_stmt *stmt = statement->statement;
  size_t start = reply->length, bytes = 0;
  int code = place ? sqlite.step(stmt) : step_first(it, statement, how, reply);
  if (code < 0) return;
  int columns = sqlite.column_count(stmt);
  block_byte(reply, REPLY_ROWS);
  block_number(reply, 0);
  block_number(reply, 0);
  block_number(reply, (uint64_t)columns);
  for (int i = 0; i < columns; i++) {
    const char *name = sqlite.column_name(stmt, i);
    block_text(reply, name ? name : "", name ? strlen(name) : 0);
  }
  uint64_t rows = 0, open = 0;
  // The last step of a change commits it, and may fail.
  int to_end = !sqlite.stmt_readonly(stmt);
  for (; code == SQLITE_ROW; code = sqlite.step(stmt)) {
    if (how->flags & COUNTS || (how->most_rows && rows == how->most_rows)) continue;
    rows++;
    size_t size = put_row(stmt, columns, reply);
    bytes += size;
    if (size > how->most_bytes || (!(how->flags & IN_LOTS) && bytes > how->most_bytes)) {
      reply->length = start;
      give_up(it, statement, how, reply);
      if (place) *place = (cursor){0};
      return;
    }
    if (!to_end && (reply->failed || (how->most_rows && rows == how->most_rows))) break;
    if (how->flags & IN_LOTS && (rows >= LOT_ROWS || bytes >= LOT_BYTES) && !(to_end && it->is_memory)) {
      open = 1;
      break;
    }
  }
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    reply->length = start;
    csqlite_put_error(it, reply, code);
    release(statement);
    if (place) *place = (cursor){0};
    return;
  }
  if (open && !place) place = free_cursor(it);
  if (open && place) {
    statement->is_taken = 1;
    if (!place->number) {
      *place = (cursor){++it->last_cursor, statement, it->is_memory && !it->is_taken};
    }
    memcpy(reply->bytes + start + 1, &place->number, sizeof place->number);
  } else {
    release(statement);
    if (place) *place = (cursor){0};
  }
  uint64_t changes = sqlite.total_changes(it->db) == how->before ? 0 : (uint64_t)sqlite.changes(it->db);
  if (!reply->failed) memcpy(reply->bytes + start + 9, &changes, sizeof changes);
  it->rows += columns > 0 && !(how->flags & COUNTS) ? rows : changes;
}

// Returns whether a request's transaction is still open; if not, writes the failure. A cancelled statement, a full disk
// or `on conflict rollback` end a transaction, and SQLite would carry out the next statement by itself.
static int check_transaction(csqlite *it, int flags, block *reply) {
  if (!(flags & IN_TRANSACTION) || !sqlite.get_autocommit(it->db)) return 1;
  csqlite_put_failure(reply, "ENOTCONN", "SQLITE_ABORT",
                      "the transaction is over (rolled back, as a statement in it has failed)");
  return 0;
}

static void run_statement(csqlite *it, int flags, block_reader *from, block *reply) {
  size_t length;
  run how = {.flags = flags, .before = sqlite.total_changes(it->db)};
  how.most_bytes = read_number(from);
  how.most_rows = read_number(from);
  uint64_t count = read_number(from);
  const char *text = read_text(from, &length);
  if (!check_transaction(it, flags, reply)) return;
  if (flags & IN_LOTS && !free_cursor(it)) {
    csqlite_put_failure(reply, "ENOBUFS", "SQLITE_MISUSE", "too many loops over rows are open on this connection");
    return;
  }
  prepared *statement = find_statement(it, text, length);
  if (!(flags & CONTROLS) && (statement ? statement->is_control : begins_with(text, length, CONTROL) != NULL)) {
    csqlite_put_failure(reply, "EINVAL", "SQLITE_ERROR", "transactions belong to one task: use begin()");
    return;
  }
  int is_query =
      !(flags & READS_ONLY) || (statement ? statement->is_query : begins_with(text, length, QUERIES) != NULL);
  if (is_query && !statement) {
    statement = prepare(it, text, length, reply);
    if (!statement) return;
    is_query = !(flags & READS_ONLY) || statement->is_query;
  }
  if (!is_query) {
    block_byte(reply, REPLY_WRITES);
    return;
  }
  statement->used = ++it->uses;
  // The columns of a query are checked after its first step.
  int is_change = !sqlite.stmt_readonly(statement->statement);
  if (is_change && !(flags & (LISTS | COUNTS)) && !check_columns(statement->statement, reply)) return;
  if (!bind_all(it, statement, flags, from, count, reply)) {
    release(statement);
    return;
  }
  step_all(it, statement, NULL, &how, reply);
}

static cursor *find_cursor(csqlite *it, uint64_t number) {
  if (!it->cursors) return NULL;
  for (int i = 0; i < CURSORS; i++)
    if (it->cursors[i].statement && it->cursors[i].number == number) return &it->cursors[i];
  return NULL;
}

static void next_lot(csqlite *it, block_reader *from, block *reply) {
  cursor *found = find_cursor(it, read_number(from));
  if (!found) {
    csqlite_put_failure(reply, "EINVAL", "SQLITE_MISUSE", "the rows are closed");
    return;
  }
  run how = {.flags = IN_LOTS, .most_bytes = read_number(from), .before = sqlite.total_changes(it->db)};
  step_all(it, found->statement, found, &how, reply);
}

static void drop_cursor(csqlite *it, block_reader *from, block *reply) {
  cursor *found = find_cursor(it, read_number(from));
  if (found) {
    release(found->statement);
    *found = (cursor){0};
  }
  csqlite_put_done(reply);
}

// Several statements --------------------------------------------------------------------------------------------------

// Begins a transaction, or a savepoint inside one. After a failure, writes it and returns 0.
static int begin(csqlite *it, int *is_inside, block *reply) {
  *is_inside = !sqlite.get_autocommit(it->db);
  int code = sqlite.exec(it->db, *is_inside ? "savepoint rl_batch" : "begin immediate", NULL, NULL, NULL);
  if (code != SQLITE_OK) csqlite_put_error(it, reply, code);
  return code == SQLITE_OK;
}

static int finish(csqlite *it, int is_inside, int is_good, block *reply) {
  // The failure may already have rolled back the transaction.
  if (!is_good && !is_inside && sqlite.get_autocommit(it->db)) return 0;
  const char *good = is_inside ? "release rl_batch" : "commit";
  const char *bad = is_inside ? "rollback to rl_batch; release rl_batch" : "rollback";
  int code = sqlite.exec(it->db, is_good ? good : bad, NULL, NULL, NULL);
  if (is_good && code != SQLITE_OK) {
    csqlite_put_error(it, reply, code);
    sqlite.exec(it->db, bad, NULL, NULL, NULL);
    return 0;
  }
  return is_good;
}

// Runs the statements of a text, until one fails.
static void run_statements(csqlite *it, const char *at, const char *end, block *reply) {
  while (reply->length == 0 && (at = skip_blanks(at, end)) < end) {
    char message[100];
    sqlite3_stmt *statement = NULL;
    const char *word = begins_with(at, (size_t)(end - at), CONTROL);
    if (word) {
      snprintf(message, sizeof message, "a script must not contain '%s': a script is a transaction by itself", word);
      csqlite_put_failure(reply, "EINVAL", "SQLITE_ERROR", message);
      return;
    }
    int code = sqlite.prepare_v3(it->db, at, (int)(end - at), 0, &statement, &at);
    if (code == SQLITE_OK && !statement) return;
    while (code == SQLITE_OK && sqlite.step(statement) == SQLITE_ROW) {}
    if (code == SQLITE_OK) code = sqlite.finalize(statement);
    if (code != SQLITE_OK) csqlite_put_error(it, reply, code);
  }
}

static void run_script(csqlite *it, int flags, block_reader *from, block *reply) {
  size_t length;
  const char *text = read_text(from, &length);
  int is_inside;
  if (memchr(text, 0, length)) {
    csqlite_put_failure(reply, "EINVAL", "SQLITE_ERROR", "the script has a zero byte");
    return;
  }
  if (!check_transaction(it, flags, reply) || !begin(it, &is_inside, reply)) return;
  run_statements(it, text, text + length, reply);
  if (finish(it, is_inside, reply->length == 0, reply)) csqlite_put_done(reply);
}

static void run_batch(csqlite *it, int flags, block_reader *from, block *reply) {
  int is_inside;
  uint64_t index = 0;
  if (!check_transaction(it, flags, reply) || !begin(it, &is_inside, reply)) return;
  block all = {0};
  block_byte(&all, REPLY_BATCH);
  while (from->at < from->end && !from->failed) {
    size_t length;
    const char *request = read_text(from, &length);
    block_reader one = {request, request + length, 0};
    block answer = {0};
    index++;
    read_byte(&one);
    // The batch itself is a transaction.
    int own = read_byte(&one) & ~CONTROLS;
    run_statement(it, own, &one, &answer);
    if (answer.failed || !answer.bytes || answer.bytes[0] != REPLY_ROWS) {
      *reply = answer;
      csqlite_put_index(reply, index);
      break;
    }
    block_byte(&all, own);
    block_text(&all, answer.bytes, answer.length);
    free(answer.bytes);
  }
  if (finish(it, is_inside, reply->length == 0, reply)) *reply = all;
  else free(all.bytes);
}

// Requests ------------------------------------------------------------------------------------------------------------

void csqlite_reset(csqlite *it) {
  for (int i = 0; it->cursors && i < CURSORS; i++) {
    if (!it->cursors[i].statement || it->cursors[i].is_shared) continue;
    release(it->cursors[i].statement);
    it->cursors[i] = (cursor){0};
  }
  if (it->db && !sqlite.get_autocommit(it->db)) csqlite_step_once(it, &it->end, "rollback");
}

void csqlite_carry_out(csqlite *it, const char *request, size_t length, block *reply) {
  block_reader from = {request, request + length, 0};
  int operation = read_byte(&from), flags = read_byte(&from);
  if (csqlite_is_cancelled(it)) csqlite_put_failure(reply, "ECANCELED", "SQLITE_INTERRUPT", "interrupted");
  else if (operation == REQUEST_OPEN) csqlite_open(it, flags, &from, reply);
  else if (!it->db) csqlite_put_failure(reply, "ENOTCONN", "SQLITE_MISUSE", "the connection is closed");
  else if (operation == REQUEST_RUN) run_statement(it, flags, &from, reply);
  else if (operation == REQUEST_LOT) next_lot(it, &from, reply);
  else if (operation == REQUEST_DROP) drop_cursor(it, &from, reply);
  else if (operation == REQUEST_SCRIPT) run_script(it, flags, &from, reply);
  else if (operation == REQUEST_BATCH) run_batch(it, flags, &from, reply);
  else csqlite_reset(it);
}
