// Receiving: the results of a statement, as values of Lua. These functions raise errors in Lua's way, so that only Lua
// may call them.
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "private.h"

enum { SHORT_ROW = 32 };  // columns whose lengths are kept

// Sets a field of the answer's table to the value at the top of the stack. Makes the table if there is none yet.
static void set_field(lua_State *L, const value_options *options, const char *name) {
  if (lua_isnil(L, options->answer)) {
    lua_newtable(L);
    lua_replace(L, options->answer);
  }
  lua_setfield(L, options->answer, name);
}

static void set_text(lua_State *L, const char *name, const char *text) {
  if (!text) return;
  lua_pushstring(L, text);
  lua_setfield(L, -2, name);
}

// Sets answer.failure to a table with the fields of the server's refusal.
static void note_failure(lua_State *L, cpostgres *it, const value_options *options) {
  const PGresult *result = it->result;
  static const struct {
    const char *name;
    int field;
  } fields[] = {
      {"code", PG_DIAG_SQLSTATE},      {"message", PG_DIAG_MESSAGE_PRIMARY},        {"detail", PG_DIAG_MESSAGE_DETAIL},
      {"hint", PG_DIAG_MESSAGE_HINT},  {"constraint", PG_DIAG_CONSTRAINT_NAME},     {"table", PG_DIAG_TABLE_NAME},
      {"column", PG_DIAG_COLUMN_NAME}, {"severity", PG_DIAG_SEVERITY_NONLOCALIZED},
  };
  it->has_problem = 1;
  lua_createtable(L, 0, 9);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    set_text(L, fields[i].name, pq.PQresultErrorField(result, fields[i].field));
  const char *position = pq.PQresultErrorField(result, PG_DIAG_STATEMENT_POSITION);
  if (position) {
    lua_pushinteger(L, atoi(position));
    lua_setfield(L, -2, "position");
  }
  if (!pq.PQresultErrorField(result, PG_DIAG_SQLSTATE)) set_text(L, "lost", pq.PQresultErrorMessage(result));
  set_field(L, options, "failure");
}

// Fills the list of names. Returns 0, with answer.twice, if two columns have one name.
static int note_names(lua_State *L, cpostgres *it, int columns, const value_options *options) {
  const PGresult *result = it->result;
  for (int i = 0; i < columns; i++) {
    const char *name = pq.PQfname(result, i);
    for (int k = 0; !options->is_list && k < i; k++)
      if (!strcmp(name, pq.PQfname(result, k))) {
        lua_pushstring(L, name);
        set_field(L, options, "twice");
        it->has_problem = 1;
        return 0;
      }
    lua_pushstring(L, name);
    lua_rawseti(L, options->names, i + 1);
  }
  return 1;
}

// Pushes a row. `lengths`: the lengths of the values in the row's first SHORT_ROW columns.
static void push_row(lua_State *L, const PGresult *result, int row, int columns, const int *lengths,
                     const value_options *options) {
  int is_list = options->is_list;
  lua_createtable(L, is_list ? columns : 0, is_list ? 0 : columns);
  for (int i = 0; i < columns; i++) {
    int length = i < SHORT_ROW ? lengths[i] : pq.PQgetlength(result, row, i);
    // Only an empty value may be NULL.
    int is_null = length == 0 && pq.PQgetisnull(result, row, i);
    if (is_null && !options->has_nulls) continue;
    if (!is_list) lua_rawgeti(L, options->names, i + 1);
    if (is_null) lua_pushlightuserdata(L, NULL);
    else cpostgres_push(L, options, pq.PQftype(result, i), pq.PQgetvalue(result, row, i), (size_t)length);
    if (is_list) lua_rawseti(L, -2, i + 1);
    else lua_rawset(L, -3);
  }
}

// Sets the value of the answer to the first column of a row.
static void set_value(lua_State *L, const PGresult *result, int row, const value_options *options) {
  if (pq.PQgetisnull(result, row, 0) && !options->has_nulls) return;
  if (pq.PQgetisnull(result, row, 0)) lua_pushlightuserdata(L, NULL);
  else
    cpostgres_push(L, options, pq.PQftype(result, 0), pq.PQgetvalue(result, row, 0),
                   (size_t)pq.PQgetlength(result, row, 0));
  if (options->value) lua_replace(L, options->value);
  else set_field(L, options, "value");
}

// Takes the rows of a result. Returns 0 if reading the answer must stop: answer.twice or answer.is_too_large has the
// reason.
static int take_rows(lua_State *L, cpostgres *it, value_options *options) {
  PGresult *result = it->result;
  int columns = pq.PQnfields(result), count = pq.PQntuples(result), lengths[SHORT_ROW];
  if (options->has_rows && lua_rawlen(L, options->names) == 0 && columns > 0 && !note_names(L, it, columns, options))
    return 0;
  for (int row = 0; row < count && it->rows < options->keep; row++) {
    if (options->each) it->bytes = 0;
    for (int i = 0; i < columns; i++) {
      int length = pq.PQgetlength(result, row, i);
      if (i < SHORT_ROW) lengths[i] = length;
      it->bytes += length;
    }
    if (it->bytes > options->most) {
      lua_pushboolean(L, 1);
      set_field(L, options, "is_too_large");
      return 0;
    }
    it->rows++;
    if (options->has_rows) {
      push_row(L, result, row, columns, lengths, options);
      lua_rawseti(L, options->rows, ++options->placed);
    } else if (columns > 0) {
      set_value(L, result, row, options);
    }
  }
  return 1;
}

// Notes how many rows the statement has changed, and, for a list of rows, the name of the command.
static void note_count(lua_State *L, PGresult *result, value_options *options) {
  static const char *const changing[] = {"INSERT", "UPDATE", "DELETE", "MERGE", "COPY"};
  if (!options->counts) return;
  const char *status = pq.PQcmdStatus(result);
  for (size_t i = 0; i < sizeof changing / sizeof *changing; i++)
    if (*status == *changing[i] && !strncmp(status, changing[i], strlen(changing[i])))
      options->count = strtoll(pq.PQcmdTuples(result), NULL, 10);
  if (!options->has_rows || options->value) return;
  lua_pushstring(L, status);
  set_field(L, options, "status");
}

static int has_failure(lua_State *L, const value_options *options) {
  if (lua_isnil(L, options->answer)) return 0;
  int type = lua_getfield(L, options->answer, "failure");
  lua_pop(L, 1);
  return type != LUA_TNIL;
}

// Takes a result of the answer. Returns the state at which to stop, or READING.
static answer_state take(lua_State *L, cpostgres *it, value_options *options) {
  switch (pq.PQresultStatus(it->result)) {
    case PGRES_TUPLES_OK: note_count(L, it->result, options);  // fall through
    case PGRES_SINGLE_TUPLE: return take_rows(L, it, options) ? READING : STOPPED;
    case PGRES_COMMAND_OK: note_count(L, it->result, options); return READING;
    case PGRES_PIPELINE_SYNC: return SYNCED;
    case PGRES_EMPTY_QUERY:
    case PGRES_PIPELINE_ABORTED:
      lua_pushboolean(L, 1);
      set_field(L, options, pq.PQresultStatus(it->result) == PGRES_EMPTY_QUERY ? "is_empty" : "is_skipped");
      it->has_problem = 1;
      return READING;
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
      lua_pushinteger(L, pq.PQnfields(it->result));
      set_field(L, options, pq.PQresultStatus(it->result) == PGRES_COPY_IN ? "takes" : "gives");
      return COPYING;
    default:
      // A failure that the server has reported is more useful than libpq's own, which says that the connection is
      // closed.
      if (!has_failure(L, options)) note_failure(L, it, options);
      return READING;
  }
}

// Returns the state at the end of an answer. On a lost connection, libpq reports one failure, and after that the end at
// each call.
static answer_state end_of_answer(lua_State *L, cpostgres *it, const value_options *options) {
  if (pq.PQstatus(it->connection) != CONNECTION_OK) return has_failure(L, options) ? DONE : LOST;
  return !it->has_problem && pq.PQtransactionStatus(it->connection) == PQTRANS_IDLE ? OVER : DONE;
}

answer_state cpostgres_receive(lua_State *L, cpostgres *it, value_options *options) {
  int is_lost = !pq.PQconsumeInput(it->connection);
  answer_state state = READING;
  while (state == READING && !pq.PQisBusy(it->connection)) {
    if (it->result) pq.PQclear(it->result);
    it->result = pq.PQgetResult(it->connection);
    state = it->result ? take(L, it, options) : end_of_answer(L, it, options);
  }
  if (it->result) pq.PQclear(it->result);
  it->result = NULL;
  cpostgres_drop_notifications(it);
  if (state != READING) return state;
  if (is_lost || pq.PQstatus(it->connection) != CONNECTION_OK) return LOST;
  return cpostgres_is_readable(it) ? UNREAD : MORE;
}

const char *const cpostgres_states[] = {
    [READING] = "more", [OVER] = "done",       [DONE] = "done",    [MORE] = "more",    [UNREAD] = "unread",
    [LOST] = "lost",    [STOPPED] = "stopped", [COPYING] = "copy", [SYNCED] = "synced"};

int cpostgres_poll(lua_State *L) {
  enum { ANSWER = 2, LISTS, NULLS, MOST, KEEP, EACH, ROWS, NAMES };
  cpostgres *it = cpostgres_self(L);
  lua_settop(L, EACH);
  lua_getfield(L, ANSWER, "rows");
  lua_getfield(L, ANSWER, "names");
  value_options options = {
      .has_nulls = lua_toboolean(L, NULLS),
      .decode = lua_upvalueindex(DECODE),
      .is_list = lua_toboolean(L, LISTS),
      .has_rows = lua_istable(L, ROWS),
      .each = lua_toboolean(L, EACH),
      .most = luaL_checkinteger(L, MOST),
      .keep = luaL_checkinteger(L, KEEP),
      .answer = ANSWER,
      .rows = ROWS,
      .names = NAMES,
      .counts = 1,
      .count = -1,
  };
  if (options.has_rows) options.placed = (lua_Integer)lua_rawlen(L, ROWS);
  luaL_checkstack(L, 20, NULL);
  answer_state state = cpostgres_receive(L, it, &options);
  if (options.count >= 0) {
    lua_pushinteger(L, options.count);
    lua_setfield(L, ANSWER, "count");
  }
  lua_pushstring(L, cpostgres_states[state]);
  return 1;
}
