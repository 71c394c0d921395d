// The floor: a hand-written epoll loop with a 4-ary indexed timer heap, and just enough Lua to call
// a function per event under lua_pcall. The loop has no objects, hardly any checks and no rules of order. It shows the
// cost of a loop without guarantees.
//
//   floor WORKLOAD SIZE COUNT              callbacks in C ("C")
//   floor floor.lua WORKLOAD SIZE COUNT    callbacks in Lua ("C+Lua")
//
// With -DTASKS, timers and posts in Lua keep the rules of rlhost's timers and posts ("C+task"): each is an object with
// the place that made it, and its callback runs in a coroutine from a pool, so that it could wait.
#include "support/floor_loop.h"
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>

// MARK: Lua. Callbacks live in tables that are upvalues of every function: timers by slot, watchers by
// fd, posts by position (two tables, as there are two queues). on_wake is in the first slot of `other_callbacks`.

enum { timer_callbacks = 1, fd_callbacks, post_callbacks, post_callbacks_2, other_callbacks, upvalues = 5 };

static loop *loop_of(lua_State *L) { return *(loop **)lua_getextraspace(L); }

#ifdef TASKS
typedef struct {
  const char *source;
  int line;
} item;
static lua_State *pool[64];
static int pooled;

// Replaces the function on top by an object for it, whose metatable is the pool's name in the registry.
static void push_item(lua_State *L) {
  item *made = lua_newuserdatauv(L, sizeof *made, 1);
  lua_Debug debug;
  if (lua_getstack(L, 1, &debug) && lua_getinfo(L, "Sl", &debug)) *made = (item){debug.source, debug.currentline};
  lua_insert(L, -2);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, "floor.item");
}

static void call_item(lua_State *L, uint32_t index) {
  lua_State *task = pooled ? pool[--pooled] : NULL;
  if (!task) {
    task = lua_newthread(L);
    luaL_ref(L, LUA_REGISTRYINDEX);
  }
  lua_getiuservalue(L, -1, 1);
  lua_xmove(L, task, 1);
  lua_pop(L, 1);
  lua_pushinteger(task, index);
  int results;
  if (lua_resume(task, L, 1, &results) != LUA_OK) {
    fprintf(stderr, "floor: %s\n", lua_tostring(task, -1));
    exit(1);
  }
  lua_settop(task, 0);
  if (pooled < 64) pool[pooled++] = task;
}
#else
static void push_item(lua_State *L) { (void)L; }
#endif

static void call_lua(loop *l, int table, uint32_t index) {
  lua_rawgeti(l->L, lua_upvalueindex(table), index);
#ifdef TASKS
  if (lua_isuserdata(l->L, -1)) {
    call_item(l->L, index);
    return;
  }
#endif
  lua_pushinteger(l->L, index);
  if (lua_pcall(l->L, 1, 0, 0)) {
    fprintf(stderr, "floor: %s\n", lua_tostring(l->L, -1));
    exit(1);
  }
}
static void lua_timer(loop *l, uint32_t slot) { call_lua(l, timer_callbacks, slot); }
static void lua_watcher(loop *l, uint32_t fd) { call_lua(l, fd_callbacks, fd); }
static void lua_post(loop *l, uint32_t index) { call_lua(l, post_callbacks + !l->filling, index); }
static void lua_wake(loop *l, uint32_t fd) {
  (void)fd;
  call_lua(l, other_callbacks, 1);
}

static void keep(lua_State *L, int argument, int table, uint32_t index) {
  lua_pushvalue(L, argument);
  if (table == timer_callbacks || table == post_callbacks || table == post_callbacks_2) push_item(L);
  lua_rawseti(L, lua_upvalueindex(table), index);
}

static uint64_t nanoseconds(lua_State *L, int argument) { return (uint64_t)(luaL_checknumber(L, argument) * 1e9); }

static int l_timer(lua_State *L) {  // timer(delay, fn, interval) -> slot
  loop *l = loop_of(L);
  uint64_t delay = nanoseconds(L, 1), interval = lua_isnoneornil(L, 3) ? 0 : nanoseconds(L, 3);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  uint32_t slot = add_timer(l, l->now + delay, interval, lua_timer);
  keep(L, 2, timer_callbacks, slot);
  lua_pushinteger(L, slot);
  return 1;
}
static int l_cancel(lua_State *L) {
  uint32_t slot = (uint32_t)luaL_checkinteger(L, 1);
  cancel_timer(loop_of(L), slot);
  lua_pushboolean(L, 0);
  lua_rawseti(L, lua_upvalueindex(timer_callbacks), slot);
  return 0;
}
static int l_move(lua_State *L) {
  move_timer(loop_of(L), (uint32_t)luaL_checkinteger(L, 1), loop_of(L)->now + nanoseconds(L, 2));
  return 0;
}
static int l_watch(lua_State *L) {
  int fd = (int)luaL_checkinteger(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  watch(loop_of(L), fd, lua_watcher);
  keep(L, 2, fd_callbacks, (uint32_t)fd);
  return 0;
}
static int l_unwatch(lua_State *L) {
  unwatch(loop_of(L), (int)luaL_checkinteger(L, 1));
  return 0;
}
static int l_post(lua_State *L) {
  loop *l = loop_of(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  uint32_t index = post(l, lua_post, l->post_count[l->filling]);
  keep(L, 1, post_callbacks + l->filling, index);
  return 0;
}
static int l_run(lua_State *L) {
  run(loop_of(L));
  return 0;
}
static int l_stop(lua_State *L) {
  stop(loop_of(L));
  return 0;
}
static int l_on_wake(lua_State *L) {
  loop_of(L)->on_wake = lua_wake;
  keep(L, 1, other_callbacks, 1);
  return 0;
}
static int l_self(lua_State *L) {
  lua_pushlightuserdata(L, loop_of(L));
  return 1;
}
static int l_wake(lua_State *L) {
  wake(lua_touserdata(L, 1));
  return 0;
}
static int l_thread(lua_State *L);

static const luaL_Reg functions[] = {
    {"timer", l_timer}, {"cancel", l_cancel}, {"move", l_move}, {"watch", l_watch},   {"unwatch", l_unwatch},
    {"post", l_post},   {"run", l_run},       {"stop", l_stop}, {"thread", l_thread}, {"on_wake", l_on_wake},
    {"self", l_self},   {"wake", l_wake},     {NULL, NULL}};

static lua_State *new_state(loop *l) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_newmetatable(L, "floor.item");
  l->L = L;
  *(loop **)lua_getextraspace(L) = l;
  luaL_newlibtable(L, functions);
  for (int i = 0; i < upvalues; i++) lua_newtable(L);
  luaL_setfuncs(L, functions, upvalues);
  lua_setglobal(L, "loop");
  return L;
}

static void must(lua_State *L, int status) {
  if (status) {
    fprintf(stderr, "floor: %s\n", lua_tostring(L, -1));
    exit(1);
  }
}

typedef struct {
  char *code;
  loop *own, *parent;
} thread_start;

static void *thread_main(void *argument) {
  thread_start *start = argument;
  lua_State *L = new_state(start->own);
  must(L, luaL_loadstring(L, start->code));
  lua_pushlightuserdata(L, start->parent);
  must(L, lua_pcall(L, 1, 0, 0));
  return NULL;
}

static int l_thread(lua_State *L) {  // thread(code) -> loop; the code gets the parent's loop
  thread_start *start = malloc(sizeof *start);
  pthread_t thread;
  *start = (thread_start){strdup(luaL_checkstring(L, 1)), new_loop(), loop_of(L)};
  pthread_create(&thread, NULL, thread_main, start);
  lua_pushlightuserdata(L, start->own);
  return 1;
}

static int run_script(int argc, char **argv) {
  lua_State *L = new_state(new_loop());
  must(L, luaL_loadfile(L, argv[1]));
  for (int i = 2; i < argc; i++) lua_pushstring(L, argv[i]);
  must(L, lua_pcall(L, argc - 2, 0, 0));
  lua_close(L);
  return 0;
}

// MARK: The workloads in C

static long size, count, done;
static const uint64_t second = 1000000000u, millisecond = 1000000u;
static const uint32_t message_size = 8;

static void count_and_stop(loop *l, uint32_t unused) {
  (void)unused;
  if (++done == size) stop(l);
}
static void ignore(loop *l, uint32_t unused) {
  (void)l;
  (void)unused;
}
static void end(loop *l, uint32_t unused) {
  (void)unused;
  stop(l);
}

static void timers(loop *l) {
  start_measuring();
  // Whole milliseconds, since libuv and Node accept nothing finer.
  for (long i = 0; i < size; i++)
    add_timer(l, l->now + random_below((uint32_t)count + 1) * millisecond, 0, count_and_stop);
  run(l);
  report(size);
}

static void cancel(loop *l) {
  for (long i = 0; i < size; i++) add_timer(l, l->now + 60 * second + i, 0, ignore);
  start_measuring();
  for (long i = 0; i < count; i++) cancel_timer(l, add_timer(l, l->now + 30 * second, 0, ignore));
  report(count);
}

static void move(loop *l) {
  uint32_t *slots = calloc((size_t)size, sizeof *slots);
  for (long i = 0; i < size; i++) slots[i] = add_timer(l, l->now + 30 * second, 0, ignore);
  start_measuring();
  // Moves every timer in turn, to dates that are not in order.
  for (long i = 0; i < count; i++)
    move_timer(l, slots[i % size], l->now + (uint64_t)(30000 + i * 7919 % 9973) * millisecond);
  report(count);
}

static uint64_t interval_of(long i) { return (uint64_t)(1 + i % 10) * millisecond; }

static void count_fire(loop *l, uint32_t unused) {
  (void)l;
  (void)unused;
  done++;
}

static void repeating(loop *l) {
  double due = 0;
  for (long i = 0; i < size; i++) {
    add_timer(l, l->now + interval_of(i), interval_of(i), count_fire);
    due += (double)(count * (long)millisecond / (long)interval_of(i));
  }
  add_timer(l, l->now + (uint64_t)count * millisecond, 0, end);
  start_measuring();
  run(l);
  double cpu = cpu_seconds() - started_cpu;
  printf("{\"ops\": %ld, \"cpu\": %.9f, \"delivered\": %.6f}\n", done, cpu, (double)done / due);
}

static double *late;
static long late_count, late_capacity;
static uint64_t *due_dates;
static void note_lateness(loop *l, uint32_t slot) {
  uint64_t now = now_ns(), interval = l->timers[slot].interval;
  if (late_count < late_capacity) late[late_count++] = (double)(now - due_dates[slot]) * 1e-9;
  do due_dates[slot] += interval;
  while (due_dates[slot] <= now);
}

static void lateness(loop *l) {
  late = calloc(late_capacity = size * count, sizeof *late);
  due_dates = calloc((size_t)size + 2, sizeof *due_dates);
  for (long i = 0; i < size; i++) {
    uint64_t due = l->now + interval_of(i);
    due_dates[add_timer(l, due, interval_of(i), note_lateness)] = due;
  }
  add_timer(l, l->now + (uint64_t)count * millisecond, 0, end);
  run(l);
  report_lateness(late, late_count);
}

static int pair[2];
static void bounce(loop *l, uint32_t fd) {
  char message[8];
  if (read((int)fd, message, message_size) < 0) die("read");
  if (++done == count) {
    stop(l);
    return;
  }
  if (write((int)fd, message, message_size) < 0) die("write");
}

static void pingpong(loop *l) {
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair)) die("socketpair");
  watch(l, pair[0], bounce);
  watch(l, pair[1], bounce);
  start_measuring();
  if (write(pair[0], "12345678", message_size) < 0) die("write");
  run(l);
  report(count);
}

static int *write_ends;
static void write_one(void) {
  if (write(write_ends[random_below((uint32_t)size)], "12345678", message_size) < 0) die("write");
}
static void read_and_write_next(loop *l, uint32_t fd) {
  char message[8];
  if (read((int)fd, message, message_size) < 0) die("read");
  if (++done == count) stop(l);
  else write_one();
}

static void idle(loop *l) {
  write_ends = calloc((size_t)size, sizeof *write_ends);
  for (long i = 0; i < size; i++) {
    int ends[2];
    if (pipe2(ends, O_NONBLOCK)) die("pipe");
    watch(l, ends[0], read_and_write_next);
    write_ends[i] = ends[1];
  }
  start_measuring();
  write_one();
  run(l);
  report(count);
}

static loop *main_loop, **workers;
static void answer(loop *l, uint32_t unused) {
  (void)l;
  (void)unused;
  wake(main_loop);
}
static void ask_next(loop *l, uint32_t unused) {
  (void)unused;
  if (++done > count) stop(l);
  else wake(workers[done % size]);
}
static void *worker(void *own) {
  run(own);
  return NULL;
}

static void wake_and_answer(loop *l) {
  workers = calloc((size_t)size, sizeof *workers);
  for (long i = 0; i < size; i++) {
    pthread_t thread;
    workers[i] = new_loop();
    workers[i]->on_wake = answer;
    pthread_create(&thread, NULL, worker, workers[i]);
  }
  main_loop = l;
  l->on_wake = ask_next;
  start_measuring();
  wake(workers[0]);
  run(l);
  report(count);
}

static void count_post(loop *l, uint32_t unused) {
  (void)unused;
  if (++done == count) stop(l);
}
static void burst(loop *l) {
  start_measuring();
  for (long i = 0; i < count; i++) post(l, count_post, 0);
  run(l);
  report(count);
}

static void post_next(loop *l, uint32_t unused) {
  (void)unused;
  if (++done == count) stop(l);
  else post(l, post_next, 0);
}
static void chain(loop *l) {
  start_measuring();
  post(l, post_next, 0);
  run(l);
  report(count);
}

static void echo_back(loop *l, uint32_t fd) {
  char message[4096];
  ssize_t n = read((int)fd, message, sizeof message);
  if (n <= 0) {
    unwatch(l, (int)fd);
    close((int)fd);
    return;
  }
  if (write((int)fd, message, (size_t)n) != n) die("write");
  if (++done == size) start_measuring();
  if (done == size + count) stop(l);
}
static void accept_all(loop *l, uint32_t listener) {
  for (int fd; (fd = accept_connection((int)listener)) >= 0;) watch(l, fd, echo_back);
}
static void echo(loop *l) {
  int port = 0, listener = listen_on_loopback(&port);
  watch(l, listener, accept_all);
  printf("%d\n", port);
  fflush(stdout);
  run(l);
  report(count);
}

extern char **environ;

// Starts a program with a pipe for its output.
static pid_t start_program(char **words, int *output) {
  int ends[2];
  pid_t pid;
  posix_spawn_file_actions_t actions;
  if (pipe2(ends, O_CLOEXEC)) die("pipe2");
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  if (posix_spawn(&pid, words[0], &actions, NULL, words, environ)) die("posix_spawn");
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  *output = ends[0];
  return pid;
}

static char buffer[65536];
static void spawn(loop *l) {
  (void)l;
  start_measuring();
  for (long i = 0; i < count; i++) {
    char *words[] = {"/bin/true", NULL};
    int output, status;
    pid_t pid = start_program(words, &output);
    while (read(output, buffer, sizeof buffer) > 0) {}
    close(output);
    waitpid(pid, &status, 0);
  }
  report(count);
}

static void output(loop *l) {
  (void)l;
  char bytes[32];
  snprintf(bytes, sizeof bytes, "%ld", count << 20);
  char *words[] = {"/usr/bin/head", "-c", bytes, "/dev/zero", NULL};
  int from;
  start_measuring();
  start_program(words, &from);
  while (read(from, buffer, sizeof buffer) > 0) {}
  report(count);
}

static void changes(loop *l) {
  (void)l;
  char directory[] = "/tmp/bench-XXXXXX", writes[256];
  int watch = inotify_init1(IN_CLOEXEC), is_done = 0, from;
  if (!mkdtemp(directory) || inotify_add_watch(watch, directory, IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVE) < 0)
    die("inotify");
  snprintf(writes, sizeof writes,
           "cd %s; i=0; while [ $i -lt %ld ]; do : > f$((i %% 100)); i=$((i + 1)); done; : > done", directory, count);
  char *words[] = {"/bin/sh", "-c", writes, NULL};
  start_measuring();
  start_program(words, &from);
  while (!is_done) {
    ssize_t n = read(watch, buffer, sizeof buffer);
    for (char *at = buffer; at < buffer + n;) {
      struct inotify_event *event = (struct inotify_event *)at;
      if (event->len && !strcmp(event->name, "done")) is_done = 1;
      at += sizeof *event + event->len;
    }
  }
  report(count);
  snprintf(writes, sizeof writes, "rm -r %s", directory);
  if (system(writes)) die("rm");
}

static void on_bytes(loop *l, uint32_t fd) {
  ssize_t n = read((int)fd, buffer, sizeof buffer);
  if (n <= 0) return stop(l);
  if (write(1, ".", 1) != 1) die("write");
  if ((done += n) >= count) stop(l);
}
static void keys(loop *l) {
  int terminal = open("/dev/tty", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  struct termios modes;
  if (terminal < 0 || tcgetattr(terminal, &modes)) die("/dev/tty");
  cfmakeraw(&modes);
  tcsetattr(terminal, TCSANOW, &modes);
  watch(l, terminal, on_bytes);
  if (write(1, "?", 1) != 1) die("write");
  start_measuring();
  run(l);
  printf("\n");
  report(count);
}

static void memory_timer(loop *l) {
  long before = anonymous_bytes();
  for (long i = 0; i < size; i++) add_timer(l, l->now + 1000 * second + i, 0, ignore);
  report_memory(size, before);
}

static void memory_fd(loop *l) {
  int *ends = calloc((size_t)size * 2, sizeof *ends);
  for (long i = 0; i < size; i++)
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends + i * 2)) die("socketpair");
  long before = anonymous_bytes();
  for (long i = 0; i < size; i++) watch(l, ends[i * 2], ignore);
  report_memory(size, before);
}

static void memory_thread(loop *l) {
  (void)l;
  long before = anonymous_bytes();
  for (long i = 0; i < size; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, worker, new_loop());
  }
  usleep(200000);  // so that each thread has begun to wait
  report_memory(size, before);
}

static const struct {
  const char *name;
  void (*body)(loop *);
} workloads[] = {{"timers", timers},       {"cancel", cancel},
                 {"move", move},           {"repeat", repeating},
                 {"lateness", lateness},   {"pingpong", pingpong},
                 {"idle", idle},           {"wake", wake_and_answer},
                 {"burst", burst},         {"chain", chain},
                 {"echo", echo},           {"spawn", spawn},
                 {"output", output},       {"changes", changes},
                 {"keys", keys},           {"memory-timer", memory_timer},
                 {"memory-fd", memory_fd}, {"memory-thread", memory_thread}};

int main(int argc, char **argv) {
  if (argc > 1 && strstr(argv[1], ".lua")) return run_script(argc, argv);
  if (argc == 2 && !strcmp(argv[1], "start")) return 0;
  if (argc != 4) {
    fprintf(stderr, "usage: floor [floor.lua] WORKLOAD SIZE COUNT\n");
    return 64;
  }
  size = atol(argv[2]);
  count = atol(argv[3]);
  for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
    if (!strcmp(argv[1], workloads[i].name)) {
      workloads[i].body(new_loop());
      return 0;
    }
  return 69;  // not a workload of this peer
}
