// Connections for Lua: statements and answers. These functions raise errors in Lua's way, so that only
// Lua may call them.
#define _GNU_SOURCE
#include <lauxlib.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "CJSON.h"
#include "private.h"

enum { BYTES_CLASS = 1, DECODE = 2 };  // upvalues

cpostgres *cpostgres_hold(lua_State *L, int index) {
  cpostgres **at = luaL_testudata(L, index, CPOSTGRES_CLASS);
  if (!at || !*at) return NULL;
  (*at)->holders++;
  return *at;
}

// Making and closing --------------------------------------------------------------------------------------------------

// make(list of names, list of values, seconds) -> connection, which is not connected yet
static int make(lua_State *L) {
  lua_Integer count = luaL_len(L, 1);
  double seconds = luaL_checknumber(L, 3);
  cpostgres **at = lua_newuserdatauv(L, sizeof *at, 0);
  *at = NULL;
  luaL_setmetatable(L, CPOSTGRES_CLASS);
  cpostgres *it = *at = calloc(1, sizeof *it);
  if (!it) return luaL_error(L, "not enough memory");
  it->holders = 1;
  it->seconds = seconds;
  it->names = calloc((size_t)count + 1, sizeof *it->names);
  it->values = calloc((size_t)count + 1, sizeof *it->values);
  for (lua_Integer i = 1; i <= count && it->names && it->values; i++) {
    lua_rawgeti(L, 1, i);
    lua_rawgeti(L, 2, i);
    it->names[i - 1] = strdup(luaL_checkstring(L, -2));
    it->values[i - 1] = strdup(luaL_checkstring(L, -1));
    lua_pop(L, 2);
  }
  return 1;
}

static int close_it(lua_State *L) {
  cpostgres **at = cpostgres_holder(L), *it = *at;
  *at = NULL;
  if (!it) return 0;
  it->is_given_up = 1;
  if (it->is_connected) {
    if (it->result) pq.PQclear(it->result);
    pq.PQfinish(it->connection);
    it->result = NULL;
    it->connection = NULL;
  }
  cpostgres_release(it);
  return 0;
}

// failure() -> the reason for which it could not connect; nil if it is connected
static int failure(lua_State *L) {
  cpostgres *it = *cpostgres_holder(L);
  if (it && it->is_connected) lua_pushnil(L);
  else lua_pushstring(L, it && it->failure ? it->failure : "out of memory");
  return 1;
}

static int descriptor(lua_State *L) { return lua_pushinteger(L, pq.PQsocket(cpostgres_self(L)->connection)), 1; }
static int process(lua_State *L) { return lua_pushinteger(L, pq.PQbackendPID(cpostgres_self(L)->connection)), 1; }
static int message(lua_State *L) { return lua_pushstring(L, pq.PQerrorMessage(cpostgres_self(L)->connection)), 1; }
static int parameter(lua_State *L) {
  return lua_pushstring(L, pq.PQparameterStatus(cpostgres_self(L)->connection, luaL_checkstring(L, 2))), 1;
}

static int push_liveness(lua_State *L, cpostgres *it) {
  lua_pushboolean(L, !it->is_ending && pq.PQstatus(it->connection) == CONNECTION_OK);
  return 1;
}

static int is_readable(cpostgres *it) {
  struct pollfd file = {pq.PQsocket(it->connection), POLLIN, 0};
  return poll(&file, 1, 0) > 0;
}

// Drops notifications, which a statement of the script has asked for: libpq would keep them as long as the connection.
static void drop_notifications(cpostgres *it) {
  PGnotify *one;
  while (!it->keeps_notifications && (one = pq.PQnotifies(it->connection))) pq.PQfreemem(one);
}

// is_alive() -> whether the connection, which must be idle, is still open
static int is_alive(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  for (int i = 0; i < 20 && !it->is_ending && is_readable(it); i++) {
    if (!pq.PQconsumeInput(it->connection)) return lua_pushboolean(L, 0), 1;
    pq.PQisBusy(it->connection);
  }
  drop_notifications(it);
  return push_liveness(L, it);
}

// stands() -> false if the connection is known to be lost
static int stands(lua_State *L) { return push_liveness(L, cpostgres_self(L)); }

// shut() ends the connection; a task that waits for it continues
static int shut(lua_State *L) { return shutdown(pq.PQsocket(cpostgres_self(L)->connection), SHUT_RDWR), 0; }

// is_idle() -> whether no transaction is open
static int is_idle(lua_State *L) {
  lua_pushboolean(L, pq.PQtransactionStatus(cpostgres_self(L)->connection) == PQTRANS_IDLE);
  return 1;
}

// transaction() -> "idle", "active", "inside", "failed" or "unknown"
static int transaction(lua_State *L) {
  static const char *const names[] = {"idle", "active", "inside", "failed", "unknown"};
  lua_pushstring(L, names[pq.PQtransactionStatus(cpostgres_self(L)->connection)]);
  return 1;
}

// Sending -------------------------------------------------------------------------------------------------------------

typedef struct {
  const char *value;
  Oid type;
  int length, format;
  char number[JSON_NUMBER_SIZE + 1];
} parameter_slot;

// Describes the value at the top of the stack, which the table of values keeps. Returns 0 if no column can hold it.
static int describe(lua_State *L, parameter_slot *slot) {
  size_t length = 0;
  switch (lua_type(L, -1)) {
    case LUA_TNIL: return 1;
    case LUA_TLIGHTUSERDATA: return lua_touserdata(L, -1) == NULL;
    case LUA_TBOOLEAN: slot->value = lua_toboolean(L, -1) ? "true" : "false"; return 1;
    case LUA_TSTRING: slot->value = lua_tolstring(L, -1, &length); return !memchr(slot->value, 0, length);
    case LUA_TNUMBER:
      slot->value = slot->number;
      if (lua_isinteger(L, -1)) slot->number[json_write_integer(slot->number, lua_tointeger(L, -1))] = 0;
      else if (isnan(lua_tonumber(L, -1))) slot->value = "NaN";
      else if (isinf(lua_tonumber(L, -1))) slot->value = lua_tonumber(L, -1) < 0 ? "-Infinity" : "Infinity";
      else slot->number[json_write_double(slot->number, lua_tonumber(L, -1))] = 0;
      return 1;
    case LUA_TTABLE:
      if (!lua_getmetatable(L, -1)) return 0;
      int is_bytes = lua_rawequal(L, -1, lua_upvalueindex(BYTES_CLASS));
      lua_pop(L, 1);
      if (!is_bytes) return 0;
      lua_rawgeti(L, -1, 1);
      slot->value = lua_tolstring(L, -1, &length);
      lua_pop(L, 1);
      slot->length = (int)length;
      slot->format = 1;
      slot->type = 17;
      return slot->value != NULL;
    default: return 0;
  }
}

enum { SLOTS = 16 };

// Sends a statement; with a name, the prepared statement of that name. `text`: NULL if the values are on the stack,
// from 3 on, instead of in the table at 3. Returns as send_query.
static int send_with(lua_State *L, cpostgres *it, const char *text, const char *name, size_t count,
                     parameter_slot *slots, const char **values, int *lengths, int *formats, Oid *types) {
  int has_types = 0;
  for (size_t i = 0; i < count; i++) {
    if (text) lua_rawgeti(L, 3, (lua_Integer)i + 1);
    else lua_pushvalue(L, 3 + (int)i);
    slots[i] = (parameter_slot){0};
    if (!describe(L, &slots[i])) {
      lua_pushnil(L);
      lua_pushinteger(L, (lua_Integer)i + 1);
      return 2;
    }
    lua_pop(L, 1);
    values[i] = slots[i].value;
    lengths[i] = slots[i].length;
    formats[i] = slots[i].format;
    types[i] = slots[i].type;
    if (types[i]) has_types = 1;
  }
  int done = name ? pq.PQsendQueryPrepared(it->connection, name, (int)count, values, lengths, formats, 0)
                  : pq.PQsendQueryParams(it->connection, text, (int)count, has_types ? types : NULL, values, lengths,
                                         formats, 0);
  it->rows = it->bytes = it->has_problem = 0;
  lua_pushboolean(L, done);
  return 1;
}

// send(text, values, count, name) sends a statement; with a name, the prepared statement of that name. -> true; false
// if the connection is lost; or nil and the number of a parameter that no column can hold
static int send_query(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  const char *text = luaL_checkstring(L, 2), *name = luaL_optstring(L, 5, NULL);
  size_t count = (size_t)luaL_checkinteger(L, 4);
  lua_settop(L, 5);
  if (count <= SLOTS) {
    parameter_slot slots[SLOTS];
    const char *values[SLOTS];
    int lengths[SLOTS], formats[SLOTS];
    Oid types[SLOTS];
    return send_with(L, it, text, name, count, slots, values, lengths, formats, types);
  }
  parameter_slot *slots = lua_newuserdatauv(L, count * sizeof *slots, 0);
  const char **values = lua_newuserdatauv(L, count * sizeof *values, 0);
  int *numbers = lua_newuserdatauv(L, count * 2 * sizeof *numbers, 0);
  Oid *types = lua_newuserdatauv(L, count * sizeof *types, 0);
  return send_with(L, it, text, name, count, slots, values, numbers, numbers + count, types);
}

// check(values, count) -> nil, or the number of a parameter that no column can hold
static int check(lua_State *L) {
  lua_Integer count = luaL_checkinteger(L, 2);
  for (lua_Integer i = 1; i <= count; i++) {
    parameter_slot slot = {0};
    lua_rawgeti(L, 1, i);
    if (!describe(L, &slot)) return lua_pushinteger(L, i), 1;
    lua_pop(L, 1);
  }
  return 0;
}

static int answer_to(lua_State *L, cpostgres *it, int done) {
  it->rows = it->bytes = it->has_problem = 0;
  lua_pushboolean(L, done);
  return 1;
}

static int simple(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  return answer_to(L, it, pq.PQsendQuery(it->connection, luaL_checkstring(L, 2)));
}

static int prepare(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  return answer_to(L, it, pq.PQsendPrepare(it->connection, luaL_checkstring(L, 2), luaL_checkstring(L, 3), 0, NULL));
}

// pipeline(whether to begin or to end)
static int pipeline(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  int done = lua_toboolean(L, 2) ? pq.PQenterPipelineMode(it->connection) : pq.PQexitPipelineMode(it->connection);
  return answer_to(L, it, done);
}

static int sync_pipeline(lua_State *L) {
  return lua_pushboolean(L, pq.PQpipelineSync(cpostgres_self(L)->connection)), 1;
}
// ask() makes the server send the answers of a pipeline so far
static int ask(lua_State *L) { return lua_pushboolean(L, pq.PQsendFlushRequest(cpostgres_self(L)->connection)), 1; }

// flush() -> 0 if all was sent, 1 if there is more, -1 if the connection is lost; also reads available input
static int flush(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  int left = pq.PQflush(it->connection);
  if (left == 1 && !pq.PQconsumeInput(it->connection)) left = -1;
  lua_pushinteger(L, left);
  return 1;
}

// start() makes rows of the last statement arrive one by one instead of all at the end, and calls flush; returns its
// result
static int start(lua_State *L) {
  pq.PQsetSingleRowMode(cpostgres_self(L)->connection);
  return flush(L);
}

// execute(name, values...) sends a prepared statement with at most 16 values; rows arrive one by one. -> the result of
// `flush`; nil if a value is refused: then nothing was sent
static int execute(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  const char *name = luaL_checkstring(L, 2);
  size_t count = (size_t)lua_gettop(L) - 2;
  if (count > SLOTS) return 0;
  parameter_slot slots[SLOTS];
  const char *values[SLOTS];
  int lengths[SLOTS], formats[SLOTS];
  Oid types[SLOTS];
  if (send_with(L, it, NULL, name, count, slots, values, lengths, formats, types) > 1) return 0;
  if (!lua_toboolean(L, -1)) return lua_pushinteger(L, -1), 1;
  return start(L);
}

// Receiving -----------------------------------------------------------------------------------------------------------

enum { ANSWER = 2, LISTS, NULLS, MOST, KEEP, EACH, ROWS, NAMES };
enum { SHORT_ROW = 32 };  // columns whose lengths are kept

static void set_text(lua_State *L, const char *name, const char *text) {
  if (!text) return;
  lua_pushstring(L, text);
  lua_setfield(L, -2, name);
}

// Sets answer.failure to a table with the fields of the server's refusal.
static void note_failure(lua_State *L, cpostgres *it) {
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
  lua_setfield(L, ANSWER, "failure");
}

// Fills the list of names. Returns 0, with answer.twice, if two columns have one name.
static int note_names(lua_State *L, cpostgres *it, int columns) {
  const PGresult *result = it->result;
  for (int i = 0; i < columns; i++) {
    const char *name = pq.PQfname(result, i);
    for (int k = 0; !lua_toboolean(L, LISTS) && k < i; k++)
      if (!strcmp(name, pq.PQfname(result, k))) {
        lua_pushstring(L, name);
        lua_setfield(L, ANSWER, "twice");
        it->has_problem = 1;
        return 0;
      }
    lua_pushstring(L, name);
    lua_rawseti(L, NAMES, i + 1);
  }
  lua_pushboolean(L, 1);
  lua_setfield(L, ANSWER, "has_names");
  return 1;
}

// Pushes a row. `lengths`: those of the values in its first SHORT_ROW columns.
static void push_row(lua_State *L, const PGresult *result, int row, int columns, const int *lengths,
                     const value_options *options) {
  int is_list = options->is_list;
  lua_createtable(L, is_list ? columns : 0, is_list ? 0 : columns);
  for (int i = 0; i < columns; i++) {
    int length = i < SHORT_ROW ? lengths[i] : pq.PQgetlength(result, row, i);
    // Only an empty value may be NULL.
    int is_null = length == 0 && pq.PQgetisnull(result, row, i);
    if (is_null && !options->has_nulls) continue;
    if (!is_list) lua_rawgeti(L, NAMES, i + 1);
    if (is_null) lua_pushlightuserdata(L, NULL);
    else cpostgres_push(L, options, pq.PQftype(result, i), pq.PQgetvalue(result, row, i), (size_t)length);
    if (is_list) lua_rawseti(L, -2, i + 1);
    else lua_rawset(L, -3);
  }
}

// Sets answer.value to the first column of a row.
static void set_value(lua_State *L, const PGresult *result, int row, const value_options *options) {
  if (pq.PQgetisnull(result, row, 0) && !options->has_nulls) return;
  if (pq.PQgetisnull(result, row, 0)) lua_pushlightuserdata(L, NULL);
  else
    cpostgres_push(L, options, pq.PQftype(result, 0), pq.PQgetvalue(result, row, 0),
                   (size_t)pq.PQgetlength(result, row, 0));
  lua_setfield(L, ANSWER, "value");
}

// Takes the rows of a result. Returns 0 if reading the answer must stop: answer.twice or answer.is_too_large has the
// reason.
static int take_rows(lua_State *L, cpostgres *it, value_options *options) {
  PGresult *result = it->result;
  int columns = pq.PQnfields(result), count = pq.PQntuples(result), lengths[SHORT_ROW];
  if (options->has_rows && lua_rawlen(L, NAMES) == 0 && columns > 0 && !note_names(L, it, columns)) return 0;
  for (int row = 0; row < count && it->rows < options->keep; row++) {
    if (options->each) it->bytes = 0;
    for (int i = 0; i < columns; i++) {
      int length = pq.PQgetlength(result, row, i);
      if (i < SHORT_ROW) lengths[i] = length;
      it->bytes += length;
    }
    if (it->bytes > options->most) {
      lua_pushboolean(L, 1);
      lua_setfield(L, ANSWER, "is_too_large");
      return 0;
    }
    it->rows++;
    if (options->has_rows) {
      push_row(L, result, row, columns, lengths, options);
      lua_rawseti(L, ROWS, ++options->placed);
    } else if (columns > 0) {
      set_value(L, result, row, options);
    }
  }
  return 1;
}

static void note_count(lua_State *L, PGresult *result) {
  static const char *const changing[] = {"INSERT", "UPDATE", "DELETE", "MERGE", "COPY"};
  const char *status = pq.PQcmdStatus(result);
  for (size_t i = 0; i < sizeof changing / sizeof *changing; i++)
    if (!strncmp(status, changing[i], strlen(changing[i]))) {
      lua_pushinteger(L, strtoll(pq.PQcmdTuples(result), NULL, 10));
      lua_setfield(L, ANSWER, "count");
    }
  if (!lua_istable(L, ROWS)) return;
  lua_pushstring(L, status);
  lua_setfield(L, ANSWER, "status");
}

static const char *take(lua_State *L, cpostgres *it, value_options *options) {
  switch (pq.PQresultStatus(it->result)) {
    case PGRES_TUPLES_OK: note_count(L, it->result);  // fall through
    case PGRES_SINGLE_TUPLE: return take_rows(L, it, options) ? NULL : "stopped";
    case PGRES_COMMAND_OK: note_count(L, it->result); return NULL;
    case PGRES_PIPELINE_SYNC: return "synced";
    case PGRES_EMPTY_QUERY:
    case PGRES_PIPELINE_ABORTED:
      lua_pushboolean(L, 1);
      lua_setfield(L, ANSWER, pq.PQresultStatus(it->result) == PGRES_EMPTY_QUERY ? "is_empty" : "is_skipped");
      it->has_problem = 1;
      return NULL;
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
      lua_pushinteger(L, pq.PQnfields(it->result));
      lua_setfield(L, ANSWER, pq.PQresultStatus(it->result) == PGRES_COPY_IN ? "takes" : "gives");
      return "copy";
    default:
      // A failure that the server has reported is more useful than libpq's own, which says that the connection is
      // closed.
      if (lua_getfield(L, ANSWER, "failure") == LUA_TNIL) note_failure(L, it);
      lua_pop(L, 1);
      return NULL;
  }
}

// Returns the state at the end of an answer. On a lost connection, libpq returns one failure, and after that only ends
// of answers.
static const char *end_of_answer(lua_State *L, cpostgres *it) {
  if (pq.PQstatus(it->connection) == CONNECTION_OK) return "done";
  int has_failure = lua_getfield(L, ANSWER, "failure") != LUA_TNIL;
  lua_pop(L, 1);
  return has_failure ? "done" : "lost";
}

// poll(answer, lists, nulls, most bytes, rows to keep, whether `most` is for each row) -> "done" after an answer;
// "more" if it has to wait for input; "unread" if there is input already, which the loop's next pass may take;
// "lost"; "stopped"; "copy"; "synced". Rows go to answer.rows, and their names to answer.names; without these tables,
// the first value goes to answer.value. Also returns whether the call is over: the whole answer has come without a
// problem, and no transaction is open.
static int poll_answer(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  lua_settop(L, EACH);
  lua_getfield(L, ANSWER, "rows");
  lua_getfield(L, ANSWER, "names");
  lua_pushvalue(L, lua_upvalueindex(DECODE));
  value_options options = {
      .has_nulls = lua_toboolean(L, NULLS),
      .decode = lua_gettop(L),
      .is_list = lua_toboolean(L, LISTS),
      .has_rows = lua_istable(L, ROWS),
      .each = lua_toboolean(L, EACH),
      .most = luaL_checkinteger(L, MOST),
      .keep = luaL_checkinteger(L, KEEP),
  };
  if (options.has_rows) options.placed = (lua_Integer)lua_rawlen(L, ROWS);
  luaL_checkstack(L, 20, NULL);
  int is_lost = !pq.PQconsumeInput(it->connection);
  const char *state = NULL;
  while (!state && !pq.PQisBusy(it->connection)) {
    if (it->result) pq.PQclear(it->result);
    it->result = pq.PQgetResult(it->connection);
    state = it->result ? take(L, it, &options) : end_of_answer(L, it);
  }
  if (it->result) pq.PQclear(it->result);
  it->result = NULL;
  drop_notifications(it);
  int is_whole = state && !strcmp(state, "done") && !it->has_problem;
  if (!state && (is_lost || pq.PQstatus(it->connection) != CONNECTION_OK)) state = "lost";
  if (!state) state = is_readable(it) ? "unread" : "more";
  lua_pushstring(L, state);
  lua_pushboolean(L, is_whole && pq.PQtransactionStatus(it->connection) == PQTRANS_IDLE);
  return 2;
}

// notifications() -> list: the channel and the text of each notification in turn. Before the first call of this
// function, notifications are dropped; afterwards libpq keeps them for the next call.
static int notifications(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  it->keeps_notifications = 1;
  lua_newtable(L);
  lua_Integer count = 0;
  for (PGnotify *one; (one = pq.PQnotifies(it->connection)); pq.PQfreemem(one)) {
    lua_pushstring(L, one->relname);
    lua_rawseti(L, -2, ++count);
    lua_pushstring(L, one->extra);
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

// Places --------------------------------------------------------------------------------------------------------------

static int push_options(lua_State *L, PQconninfoOption *options, int only_set) {
  lua_newtable(L);
  for (PQconninfoOption *at = options; at && at->keyword; at++) {
    if (only_set && !at->val) continue;
    lua_pushstring(L, only_set ? at->val : "string");
    lua_setfield(L, -2, at->keyword);
  }
  if (options) pq.PQconninfoFree(options);
  return 1;
}

// parse(text) -> table of keywords; nil if it is malformed
static int parse(lua_State *L) {
  char *problem = NULL;
  PQconninfoOption *options = pq.PQconninfoParse(luaL_checkstring(L, 1), &problem);
  // libpq's message shows parts of the text: a password may be in it.
  if (problem) pq.PQfreemem(problem);
  return options ? push_options(L, options, 1) : 0;
}

// keywords() -> table by keyword
static int keywords(lua_State *L) { return push_options(L, pq.PQconndefaults(), 0); }

int cpostgres_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"make", make}, {"parse", parse}, {"keywords", keywords}, {"check", check}, {"refused", cpostgres_refused},
      {NULL, NULL}};
  static const luaL_Reg methods[] = {{"close", close_it},
                                     {"__gc", close_it},
                                     {"failure", failure},
                                     {"descriptor", descriptor},
                                     {"process", process},
                                     {"message", message},
                                     {"parameter", parameter},
                                     {"is_alive", is_alive},
                                     {"stands", stands},
                                     {"shut", shut},
                                     {"is_idle", is_idle},
                                     {"transaction", transaction},
                                     {"send", send_query},
                                     {"simple", simple},
                                     {"prepare", prepare},
                                     {"start", start},
                                     {"execute", execute},
                                     {"pipeline", pipeline},
                                     {"sync", sync_pipeline},
                                     {"ask", ask},
                                     {"flush", flush},
                                     {"poll", poll_answer},
                                     {"notifications", notifications},
                                     {"put_copy", cpostgres_put_copy},
                                     {"end_copy", cpostgres_end_copy},
                                     {"get_copy", cpostgres_get_copy},
                                     {NULL, NULL}};
  lua_settop(L, 2);
  luaL_newmetatable(L, CPOSTGRES_CLASS);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  luaL_setfuncs(L, methods, 2);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_newtable(L);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  luaL_setfuncs(L, functions, 2);
  return 1;
}
