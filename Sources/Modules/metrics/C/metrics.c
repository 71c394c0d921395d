// The numbers of a process: metrics, which all threads change by name, and the page that shows the metrics. A metric is
// never freed, since any state may have an object for it.
#include "metrics.h"

#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../encoding/C/codecs.h"

struct metrics_list metrics_all = {.lock = PTHREAD_MUTEX_INITIALIZER};
#define all metrics_all

// Finding -------------------------------------------------------------------------------------------------------------

static void drop_series(metric *m) {
  for (series *s = m->first, *later; s; s = later) {
    later = s->later;
    free(s->counts);
    free(s);
  }
  memset(m->chains, 0, sizeof m->chains);
  m->first = NULL, m->last = &m->first, m->series_count = 0, m->dropped = 0, m->has_warned = 0, m->put_at = 0;
}

static series **chain_of(metric *m, const char *key, size_t length) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)key[i]) * 16777619u;
  return &m->chains[(hash ^ hash >> 15) % CHAINS];
}

// Returns the series of a key; makes it if there is none. Returns NULL if there are too many series, or no memory. The
// caller holds the metric's lock.
static series *find(metric *m, const char *key, size_t length) {
  if (!m->label_count && m->first) return m->first;
  series **chain = chain_of(m, key, length);
  for (series *s = *chain; s; s = s->next)
    if (s->length == length && !memcmp(s->key, key, length)) return s;
  if (m->series_count >= MOST_SERIES) return NULL;
  series *s = calloc(1, sizeof *s + length);
  if (!s) return NULL;
  if (m->kind == HISTOGRAM && !(s->counts = calloc((size_t)m->bucket_count + 1, sizeof *s->counts))) {
    free(s);
    return NULL;
  }
  memcpy(s->key, key, length);
  s->length = length, s->next = *chain, *chain = s, *m->last = s, m->last = &s->later, m->series_count++;
  return s;
}

static int is_equal(const metric *m, const metric *other) {
  if (m->kind != other->kind || strcmp(m->help, other->help) || m->label_count != other->label_count ||
      m->bucket_count != other->bucket_count)
    return 0;
  for (int i = 0; i < m->label_count; i++)
    if (strcmp(m->labels[i], other->labels[i])) return 0;
  for (int i = 0; i < m->bucket_count; i++)
    if (m->buckets[i] != other->buckets[i]) return 0;
  return 1;
}

// Whether a line of a histogram would have the name of another metric.
static int clashes(const metric *m, const metric *other) {
  static const char *const suffixes[] = {"_bucket", "_sum", "_count"};
  const size_t length = strlen(m->name);
  if (m->kind != HISTOGRAM || strncmp(m->name, other->name, length)) return 0;
  for (int i = 0; i < 3; i++)
    if (!strcmp(other->name + length, suffixes[i])) return 1;
  return 0;
}

// Appends a metric to the page. The caller holds `all.lock`.
static int show(metric *m) {
  for (size_t i = 0; i < all.count; i++) {
    if (all.metrics[i] != m) continue;
    memmove(all.metrics + i, all.metrics + i + 1, (all.count - i - 1) * sizeof *all.metrics);
    all.count--;
    break;
  }
  if (all.count == all.room) {
    size_t room = all.room ? all.room * 2 : 16;
    metric **metrics = realloc(all.metrics, room * sizeof *metrics);
    if (!metrics) return 0;
    all.metrics = metrics, all.room = room;
  }
  all.metrics[all.count++] = m;
  __atomic_store_n(&m->is_hidden, 0, __ATOMIC_RELAXED);
  return 1;
}

static metric *find_shown(const char *name) {
  for (size_t i = 0; i < all.count; i++)
    if (!all.metrics[i]->is_hidden && !strcmp(all.metrics[i]->name, name)) return all.metrics[i];
  return NULL;
}

void metrics_reset(void) {
  pthread_mutex_lock(&all.lock);
  for (size_t i = 0; i < all.count; i++) {
    metric *m = all.metrics[i];
    pthread_mutex_lock(&m->lock);
    drop_series(m);
    __atomic_store_n(&m->is_hidden, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&m->lock);
  }
  pthread_mutex_unlock(&all.lock);
}

// Shows a metric in the current test. A test file may have made the metric once, for all of its tests.
static void use(metric *m) {
  if (!__atomic_load_n(&m->is_hidden, __ATOMIC_RELAXED)) return;
  pthread_mutex_lock(&all.lock);
  if (m->is_hidden && !find_shown(m->name)) show(m);
  pthread_mutex_unlock(&all.lock);
}

// Making --------------------------------------------------------------------------------------------------------------

static metric *check_self(lua_State *L, const char *what) {
  metric **self = lua_touserdata(L, 1);
  if (self && lua_getmetatable(L, 1)) {
    int is_own = lua_rawequal(L, -1, lua_upvalueindex(2));
    lua_pop(L, 1);
    if (is_own) return *self;
  }
  codecs_raise(L, "%s: call it with a colon, on a metric of this kind", what);
  return NULL;  // never
}

// The names of the classes in the registry, by kind.
static const char *const CLASSES[] = {"runloop.metrics.counter", "runloop.metrics.gauge", "runloop.metrics.histogram"};

// Returns the metric that is argument #1; raises if the argument is not a metric.
static metric *metric_of(lua_State *L) {
  for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++) {
    metric **self = luaL_testudata(L, 1, CLASSES[i]);
    if (self && *self) return *self;
  }
  luaL_typeerror(L, 1, "metric");
  return NULL;  // never
}

static void free_metric(metric *m) {
  for (int i = 0; i < m->label_count; i++) free(m->labels[i]);
  free(m->labels), free(m->buckets), free(m->name), free(m->help), free(m->site), free(m);
}

// Returns a new metric from the arguments of `define`; NULL without memory.
static metric *make(lua_State *L) {
  metric *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->kind = (int)lua_tointeger(L, 1);
  m->name = strdup(lua_tostring(L, 2)), m->help = strdup(lua_tostring(L, 3)), m->site = strdup(lua_tostring(L, 6));
  int labels = (int)lua_rawlen(L, 4), buckets = (int)lua_rawlen(L, 5);
  m->labels = calloc((size_t)labels + 1, sizeof *m->labels);
  m->buckets = calloc((size_t)buckets + 1, sizeof *m->buckets);
  int is_fine = m->name && m->help && m->site && m->labels && m->buckets;
  for (int i = 0; i < labels && is_fine; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, 4, i + 1);
    if (!(m->labels[i] = strdup(lua_tostring(L, -1)))) is_fine = 0;
    else m->label_count++;
  }
  for (int i = 0; i < buckets && is_fine; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, 5, i + 1);
    m->buckets[m->bucket_count++] = lua_tonumber(L, -1);
  }
  m->last = &m->first;
  pthread_mutex_init(&m->lock, NULL);
  if (is_fine) return m;
  free_metric(m);
  return NULL;
}

// define(kind, name, help, labels, buckets, place, whether a function returns its number) -> metric; or nil, the place
// where another metric was made, and the other's name. The Lua half has checked the arguments.
static int define(lua_State *L) {
  lua_Integer kind = luaL_checkinteger(L, 1);
  luaL_argcheck(L, kind >= 0 && kind < (lua_Integer)(sizeof CLASSES / sizeof *CLASSES), 1, "a kind of metric expected");
  for (int index = 2; index <= 6; index++)
    luaL_checktype(L, index, index == 4 || index == 5 ? LUA_TTABLE : LUA_TSTRING);
  for (lua_Integer i = (lua_Integer)lua_rawlen(L, 4); i > 0; i--, lua_pop(L, 1))
    luaL_argcheck(L, lua_rawgeti(L, 4, i) == LUA_TSTRING, 4, "list of names expected");
  metric **self = lua_newuserdatauv(L, sizeof *self, 0);
  *self = NULL;
  metric *own = make(L), *found = NULL;
  if (!own) return luaL_error(L, "not enough memory");
  int differs = 0, is_used = 0;
  pthread_mutex_lock(&all.lock);
  for (size_t i = 0; i < all.count && !found; i++) {
    metric *m = all.metrics[i];
    if (!m->is_hidden && (clashes(m, own) || clashes(own, m))) found = m, differs = 1;
    if (strcmp(m->name, own->name)) continue;
    if (is_equal(m, own)) found = m;
    else if (!m->is_hidden) found = m, differs = 1;
  }
  if (!differs) {
    is_used = !found;
    if (!found) found = own;
    if ((is_used || found->is_hidden) && !show(found)) found = NULL;
  }
  if (found && !differs) {
    pthread_mutex_lock(&found->lock);
    if (lua_toboolean(L, 7)) {
      found->is_asked = 1;
      lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
      found->owner = lua_topointer(L, -1);
      lua_pop(L, 1);
    } else {
      found->is_asked = 0;
    }
    if (!found->label_count) find(found, "", 0);
    pthread_mutex_unlock(&found->lock);
  }
  pthread_mutex_unlock(&all.lock);
  if (!is_used) free_metric(own);
  if (!found) return luaL_error(L, "not enough memory");
  if (differs) {
    lua_pushnil(L);
    lua_pushstring(L, found->site);
    lua_pushstring(L, found->name);
    return 3;
  }
  *self = found;
  lua_rawgeti(L, lua_upvalueindex(2), found->kind + 1);
  lua_setmetatable(L, -2);
  return 1;
}

// Counting ------------------------------------------------------------------------------------------------------------

static int wrong_count(lua_State *L, const metric *m, const char *what, int count) {
  luaL_Buffer names;
  luaL_buffinit(L, &names);
  for (int i = 0; i < m->label_count; i++) {
    luaL_addstring(&names, i ? ", " : " (");
    luaL_addstring(&names, m->labels[i]);
  }
  if (m->label_count) luaL_addchar(&names, ')');
  luaL_pushresult(&names);
  const char *expected = m->label_count == 0   ? "no label values are"
                         : m->label_count == 1 ? "one label value is"
                                               : lua_pushfstring(L, "%d label values are", m->label_count);
  return codecs_raise(L, "%s: %s has%s labels%s: %s expected, got %d", what, m->name, m->label_count ? "" : " no",
                      m->label_count ? lua_tostring(L, m->label_count > 1 ? -2 : -1) : "", expected, count);
}

// Writes the key of the label values from `first` on. `room` has SHORT_KEY bytes; a longer key is made in Lua's memory.
static const char *key_of(lua_State *L, const metric *m, const char *what, int first, char *room, size_t *length) {
  int count = lua_gettop(L) - first + 1;
  if (count != m->label_count) wrong_count(L, m, what, count);
  size_t total = 0, size;
  for (int i = 0; i < count; i++) {
    int type = lua_type(L, first + i);
    if (type != LUA_TSTRING && type != LUA_TNUMBER)
      codecs_raise(L, "%s: label '%s' must be a string or a number, got %s", what, m->labels[i],
                   luaL_typename(L, first + i));
    lua_tolstring(L, first + i, &size);
    total += size + sizeof(uint32_t);
  }
  char *key = total <= SHORT_KEY ? room : lua_newuserdatauv(L, total, 0), *at = key;
  for (int i = 0; i < count; i++) {
    const char *text = lua_tolstring(L, first + i, &size);
    uint32_t short_size = (uint32_t)size;
    memcpy(at, &short_size, sizeof short_size);
    memcpy(at + sizeof short_size, text, size);
    at += sizeof short_size + size;
  }
  *length = total;
  return key;
}

enum { ADD, SET, OBSERVE };

// Changes the numbers for the label values from `first` on.
static int change(lua_State *L, metric *m, const char *what, int how, double number, int first) {
  char room[SHORT_KEY];
  size_t length;
  const char *key = key_of(L, m, what, first, room, &length);
  use(m);
  int warns = 0;
  pthread_mutex_lock(&m->lock);
  series *s = find(m, key, length);
  if (!s) {
    m->dropped++;
    warns = !m->has_warned, m->has_warned = 1;
  } else if (how == OBSERVE) {
    int low = 0, high = m->bucket_count;
    while (low < high) {
      int middle = (low + high) / 2;
      // A value that is not a number counts in the last bucket only.
      if (number <= m->buckets[middle]) high = middle;
      else low = middle + 1;
    }
    s->counts[low]++;
    s->value += number;
  } else {
    s->value = how == ADD ? s->value + number : number;
  }
  pthread_mutex_unlock(&m->lock);
  if (!warns) return 0;
  lua_rawgeti(L, lua_upvalueindex(3), 1);
  lua_pushstring(L, m->name);
  lua_call(L, 1, 0);
  return 0;
}

static double number_at(lua_State *L, int index, const char *what) {
  if (lua_type(L, index) == LUA_TNUMBER) return lua_tonumber(L, index);
  // The argument numbers in errors do not count the object, as in a script's call with a colon.
  lua_remove(L, 1);
  codecs_wrong(L, index - 1, what, "a number");
  return 0;  // never
}

// Returns the amount for `add`. Sets `first` to the index of the first label value. If the first argument is a string,
// the amount was left out, and is 1.
static double amount(lua_State *L, const metric *m, const char *what, int *first) {
  int given = lua_gettop(L) - 1;
  *first = 3;
  if (given == m->label_count && (given == 0 || lua_type(L, 2) == LUA_TSTRING)) return *first = 2, 1;
  if (given == 0) wrong_count(L, m, what, 0);
  return lua_isnil(L, 2) ? 1 : number_at(L, 2, what);
}

static int add_to_counter(lua_State *L) {
  int first;
  metric *m = check_self(L, "counter:add");
  double number = amount(L, m, "counter:add", &first);
  if (!(number >= 0)) {
    lua_remove(L, 1);
    return codecs_wrong(L, 1, "counter:add", "a number, 0 or more (only a gauge can go down)");
  }
  return change(L, m, "counter:add", ADD, number, first);
}

static int add_to_gauge(lua_State *L) {
  int first;
  metric *m = check_self(L, "gauge:add");
  double number = amount(L, m, "gauge:add", &first);
  return change(L, m, "gauge:add", ADD, number, first);
}

static int set_gauge(lua_State *L) {
  metric *m = check_self(L, "gauge:set");
  return change(L, m, "gauge:set", SET, number_at(L, 2, "gauge:set"), 3);
}

static int observe(lua_State *L) {
  metric *m = check_self(L, "histogram:observe");
  double number = number_at(L, 2, "histogram:observe");
  if (isnan(number)) {
    lua_remove(L, 1);
    return codecs_wrong(L, 1, "histogram:observe", "a number other than NaN");
  }
  return change(L, m, "histogram:observe", OBSERVE, number, 3);
}

// check_labels(histogram, label values…): raises unless there are as many as labels.
static int check_labels(lua_State *L) {
  char room[SHORT_KEY];
  size_t length;
  key_of(L, check_self(L, "histogram:time"), "histogram:time", 2, room, &length);
  return 0;
}

static int describe(lua_State *L) {
  metric *m = metric_of(L);
  lua_pushfstring(L, "%s %s", metrics_kinds[m->kind], m->name);
  return 1;
}

// The __eq of metrics: each call that defines a metric returns another userdata for it.
static int is_same(lua_State *L) {
  int same = 0;
  for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES && !same; i++) {
    metric **one = luaL_testudata(L, 1, CLASSES[i]), **other = luaL_testudata(L, 2, CLASSES[i]);
    same = one && other && *one == *other;
  }
  return lua_pushboolean(L, same), 1;
}

static int64_t moment(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// clock() -> the present time, for the argument `since` of `text`
static int clock_now(lua_State *L) { return lua_pushinteger(L, moment()), 1; }

// is_shown(gauge) -> whether a page shows the gauge; false after the end of the test that has made the gauge.
static int is_shown(lua_State *L) {
  metric *m = metric_of(L);
  lua_pushboolean(L, !__atomic_load_n(&m->is_hidden, __ATOMIC_RELAXED));
  return 1;
}

// put(gauge, number): stores the number that the function of a gauge has returned.
static int put(lua_State *L) {
  metric *m = metric_of(L);
  pthread_mutex_lock(&m->lock);
  // A gauge with a function has no labels: see `metrics.gauge`.
  series *s = m->kind == GAUGE && !m->label_count ? find(m, "", 0) : NULL;
  if (s) s->value = lua_tonumber(L, 2), m->put_at = moment();
  pthread_mutex_unlock(&m->lock);
  return 0;
}

// leave(): called when this state ends. Pages still show the last numbers of its functions.
static int leave(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  const void *owner = lua_topointer(L, -1);
  pthread_mutex_lock(&all.lock);
  for (size_t i = 0; i < all.count; i++)
    if (all.metrics[i]->owner == owner) all.metrics[i]->owner = NULL;
  pthread_mutex_unlock(&all.lock);
  return 0;
}

// Opening -------------------------------------------------------------------------------------------------------------

// Makes the class of a kind: its methods have three upvalues: runloop.misuse, the class, and a table whose element 1 is
// the function that warns. The class is left on the stack.
static void push_class(lua_State *L, int kind, const luaL_Reg *methods) {
  luaL_newmetatable(L, CLASSES[kind]);
  lua_pushstring(L, metrics_kinds[kind]);
  lua_setfield(L, -2, "__name");
  lua_pushcfunction(L, describe);
  lua_setfield(L, -2, "__tostring");
  lua_pushcfunction(L, is_same);
  lua_setfield(L, -2, "__eq");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_newtable(L);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, -3);
  lua_pushvalue(L, 2);
  luaL_setfuncs(L, methods, 3);
  lua_setfield(L, -2, "__index");
}

// The arguments are the module runloop.misuse and the table of the function that warns.
int metrics_open(lua_State *L) {
  static const luaL_Reg counter[] = {{"add", add_to_counter}, {NULL, NULL}};
  static const luaL_Reg gauge[] = {{"set", set_gauge}, {"add", add_to_gauge}, {NULL, NULL}};
  static const luaL_Reg histogram[] = {{"observe", observe}, {"check_labels", check_labels}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"define", define},
                                       {"put", put},
                                       {"is_shown", is_shown},
                                       {"leave", leave},
                                       {"number", metrics_show_number},
                                       {"clock", clock_now},
                                       {"process", metrics_process},
                                       {NULL, NULL}};
  static const luaL_Reg writers[] = {{"text", metrics_text}, {NULL, NULL}};
  metrics_age();  // notes the start while there are descriptors
  lua_settop(L, 2);
  lua_newtable(L);  // the module
  lua_newtable(L);  // the classes
  push_class(L, 0, counter);
  lua_rawseti(L, 4, 1);
  push_class(L, 1, gauge);
  lua_rawseti(L, 4, 2);
  push_class(L, 2, histogram);
  lua_rawseti(L, 4, 3);
  lua_pushvalue(L, 3);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 4);
  luaL_setfuncs(L, functions, 2);
  lua_pushvalue(L, 1);
  luaL_newmetatable(L, METRICS_PAGE);
  lua_pushcfunction(L, metrics_free_page);
  lua_setfield(L, -2, "__gc");
  luaL_setfuncs(L, writers, 2);
  lua_pushvalue(L, 4);
  lua_setfield(L, 3, "classes");
  lua_settop(L, 3);
  return 1;
}
