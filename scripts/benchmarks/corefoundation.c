// The workloads on CoreFoundation's run loop, called from C. The library is Apple's own, from the Swift toolchain. Its
// headers use blocks, so the toolchain's clang compiles this file.
#include "support/shared.h"
#include <CoreFoundation/CoreFoundation.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/eventfd.h>

static long size, count, done;
static CFRunLoopRef loop;
static const double far_away = 1e6;  // seconds

static void run(void) { CFRunLoopRunInMode(kCFRunLoopDefaultMode, far_away, false); }
static void stop(void) { CFRunLoopStop(loop); }
static double interval_of(long i) { return (double)(1 + i % 10) * 0.001; }

static CFRunLoopTimerRef timer(double date, double interval, CFRunLoopTimerCallBack call, void *info) {
  CFRunLoopTimerContext context = {.info = info};
  CFRunLoopTimerRef t = CFRunLoopTimerCreate(NULL, date, interval, 0, 0, call, &context);
  CFRunLoopAddTimer(loop, t, kCFRunLoopDefaultMode);
  return t;
}

// Makes a version 1 source. The run loop itself reads 8 bytes from a ready descriptor before it calls `perform`.
static int port_of(void *info) { return (int)(intptr_t)info; }
static CFRunLoopSourceRef watch(CFRunLoopRef on, int fd, void (*perform)(void *)) {
  CFRunLoopSourceContext1 context = {
      .version = 1, .info = (void *)(intptr_t)fd, .getPort = port_of, .perform = perform};
  CFRunLoopSourceRef source = CFRunLoopSourceCreate(NULL, 0, (CFRunLoopSourceContext *)&context);
  CFRunLoopAddSource(on, source, kCFRunLoopDefaultMode);
  return source;
}
static CFRunLoopSourceRef custom_source(CFRunLoopRef on, void (*perform)(void *), void *info) {
  CFRunLoopSourceContext context = {.info = info, .perform = perform};
  CFRunLoopSourceRef source = CFRunLoopSourceCreate(NULL, 0, &context);
  CFRunLoopAddSource(on, source, kCFRunLoopDefaultMode);
  return source;
}

static void ignore_timer(CFRunLoopTimerRef t, void *info) {
  (void)t;
  (void)info;
}
static void ignore(void *info) { (void)info; }
static void end(CFRunLoopTimerRef t, void *info) {
  (void)t;
  (void)info;
  stop();
}

static void count_timer(CFRunLoopTimerRef t, void *info) {
  (void)info;
  CFRelease(t);
  if (++done == size) stop();
}
static void timers(void) {
  start_measuring();
  double start = CFAbsoluteTimeGetCurrent();
  for (long i = 0; i < size; i++) timer(start + random_below((uint32_t)count + 1) * 0.001, 0, count_timer, NULL);
  run();
  report(size);
}

static void cancel(void) {
  double start = CFAbsoluteTimeGetCurrent();
  for (long i = 0; i < size; i++) timer(start + 60, 0, ignore_timer, NULL);
  start_measuring();
  for (long i = 0; i < count; i++) {
    CFRunLoopTimerRef t = timer(start + 30, 0, ignore_timer, NULL);
    CFRunLoopTimerInvalidate(t);
    CFRelease(t);
  }
  report(count);
}

static void move(void) {
  CFRunLoopTimerRef *timers = calloc((size_t)size, sizeof *timers);
  double start = CFAbsoluteTimeGetCurrent();
  for (long i = 0; i < size; i++) timers[i] = timer(start + 30, 0, ignore_timer, NULL);
  start_measuring();
  for (long i = 0; i < count; i++)
    CFRunLoopTimerSetNextFireDate(timers[i % size], start + 30 + (double)(i * 7919 % 9973) * 0.001);
  report(count);
}

static void count_fire(CFRunLoopTimerRef t, void *info) {
  (void)t;
  (void)info;
  done++;
}
static void repeating(void) {
  double due = 0, start = CFAbsoluteTimeGetCurrent();
  for (long i = 0; i < size; i++) {
    timer(start + interval_of(i), interval_of(i), count_fire, NULL);
    due += (double)(count / (1 + i % 10));
  }
  timer(start + (double)count * 0.001, 0, end, NULL);
  start_measuring();
  run();
  double cpu = cpu_seconds() - started_cpu;
  printf("{\"ops\": %ld, \"cpu\": %.9f, \"delivered\": %.6f}\n", done, cpu, (double)done / due);
}

static double *late;
static long late_count, late_capacity;
typedef struct {
  double due, interval;
} grid;
static void note_lateness(CFRunLoopTimerRef t, void *info) {
  (void)t;
  grid *g = info;
  double now = CFAbsoluteTimeGetCurrent();
  if (late_count < late_capacity) late[late_count++] = now - g->due;
  do g->due += g->interval;
  while (g->due <= now);
}
static void lateness(void) {
  late = calloc((size_t)(late_capacity = size * count), sizeof *late);
  grid *grids = calloc((size_t)size, sizeof *grids);
  double start = CFAbsoluteTimeGetCurrent();
  for (long i = 0; i < size; i++) {
    grids[i] = (grid){start + interval_of(i), interval_of(i)};
    timer(grids[i].due, interval_of(i), note_lateness, &grids[i]);
  }
  timer(start + (double)count * 0.001, 0, end, NULL);
  run();
  report_lateness(late, late_count);
}

static const char message[8] = "12345678";
static int pair[2];
static void bounce(void *info) {
  if (++done == count) {
    stop();
    return;
  }
  if (write((int)(intptr_t)info, message, sizeof message) < 0) die("write");
}
static void pingpong(void) {
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair)) die("socketpair");
  watch(loop, pair[0], bounce);
  watch(loop, pair[1], bounce);
  start_measuring();
  if (write(pair[0], message, sizeof message) < 0) die("write");
  run();
  report(count);
}

static int *write_ends;
static void write_one(void) {
  if (write(write_ends[random_below((uint32_t)size)], message, sizeof message) < 0) die("write");
}
static void next_pipe(void *info) {
  (void)info;
  if (++done == count) stop();
  else write_one();
}
static void idle(void) {
  write_ends = calloc((size_t)size, sizeof *write_ends);
  for (long i = 0; i < size; i++) {
    int ends[2];
    if (pipe2(ends, O_NONBLOCK)) die("pipe");
    watch(loop, ends[0], next_pipe);
    write_ends[i] = ends[1];
  }
  start_measuring();
  write_one();
  run();
  report(count);
}

typedef struct {
  CFRunLoopRef loop;
  CFRunLoopSourceRef question;
  pthread_t thread;
  volatile bool ready;
} worker;
static worker *workers;
static CFRunLoopSourceRef answer;
static void ask(worker *w) {
  CFRunLoopSourceSignal(w->question);
  CFRunLoopWakeUp(w->loop);
}
static void asked(void *info) {
  (void)info;
  CFRunLoopSourceSignal(answer);
  CFRunLoopWakeUp(loop);
}
static void answered(void *info) {
  (void)info;
  if (++done == count) stop();
  else ask(&workers[done % size]);
}
static void *worker_main(void *info) {
  worker *w = info;
  w->loop = CFRunLoopGetCurrent();
  w->question = custom_source(w->loop, asked, NULL);
  w->ready = true;
  run();
  return NULL;
}
static void start_workers(void) {
  workers = calloc((size_t)size, sizeof *workers);
  for (long i = 0; i < size; i++) pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]);
  for (long i = 0; i < size; i++)
    while (!workers[i].ready) usleep(1000);
  usleep(200000);  // so that each thread has begun to wait
}
static void wake(void) {
  answer = custom_source(loop, answered, NULL);
  start_workers();
  start_measuring();
  ask(&workers[0]);
  run();
  report(count);
}

static void burst(void) {
  start_measuring();
  custom_source(loop, ignore, NULL);  // blocks alone would not keep the mode
  for (long i = 0; i < count; i++)
    CFRunLoopPerformBlock(loop, kCFRunLoopDefaultMode, ^{
      if (++done == count) stop();
    });
  run();
  report(count);
}

static void post_next(void) {
  if (++done > count) {
    stop();
    return;
  }
  CFRunLoopPerformBlock(loop, kCFRunLoopDefaultMode, ^{ post_next(); });
  CFRunLoopWakeUp(loop);
}
static void chain(void) {
  custom_source(loop, ignore, NULL);
  start_measuring();
  post_next();
  run();
  report(count);
}

static CFRunLoopSourceRef self_signalled;
static void signal_again(void *info) {
  (void)info;
  if (++done == count) stop();
  else CFRunLoopSourceSignal(self_signalled);
}
static void signals(void) {
  self_signalled = custom_source(loop, signal_again, NULL);
  CFRunLoopSourceSignal(self_signalled);
  start_measuring();
  run();
  report(count);
}

static void note(CFRunLoopObserverRef o, CFRunLoopActivity activity, void *info) {
  (void)o;
  (void)activity;
  (void)info;
}
static void observers(void) {
  for (long i = 0; i < size; i++)
    CFRunLoopAddObserver(loop, CFRunLoopObserverCreate(NULL, kCFRunLoopBeforeTimers, true, 0, note, NULL),
                         kCFRunLoopDefaultMode);
  signals();
}

static void modes(void) {
  for (long i = 0; i < size; i++) {
    CFStringRef mode = CFStringCreateWithFormat(NULL, NULL, CFSTR("mode %ld"), i);
    CFRunLoopTimerRef t = CFRunLoopTimerCreate(NULL, CFAbsoluteTimeGetCurrent() + 1000, 0, 0, 0, ignore_timer, NULL);
    CFRunLoopAddTimer(loop, t, mode);
  }
  signals();
}

static void echo_back(CFSocketRef socket, CFSocketCallBackType type, CFDataRef address, const void *data, void *info) {
  (void)type;
  (void)address;
  (void)data;
  (void)info;
  char bytes[4096];
  int fd = CFSocketGetNative(socket);
  ssize_t n = read(fd, bytes, sizeof bytes);
  if (n <= 0) {
    CFSocketInvalidate(socket);
    return;
  }
  if (write(fd, bytes, (size_t)n) != n) die("write");
  if (++done == size) start_measuring();
  if (done == size + count) stop();
}
static void add_socket(int fd, CFSocketCallBack call) {
  CFSocketRef socket = CFSocketCreateWithNative(NULL, fd, kCFSocketReadCallBack, call, NULL);
  CFRunLoopAddSource(loop, CFSocketCreateRunLoopSource(NULL, socket, 0), kCFRunLoopDefaultMode);
}
static void accept_all(CFSocketRef socket, CFSocketCallBackType type, CFDataRef address, const void *data, void *info) {
  (void)type;
  (void)address;
  (void)data;
  (void)info;
  for (int fd; (fd = accept_connection(CFSocketGetNative(socket))) >= 0;) add_socket(fd, echo_back);
}
static void echo(void) {
  int port = 0, listener = listen_on_loopback(&port);
  add_socket(listener, accept_all);
  printf("%d\n", port);
  fflush(stdout);
  run();
  report(count);
}

static void memory_timer(void) {
  long before = anonymous_bytes();
  double start = CFAbsoluteTimeGetCurrent();
  for (long i = 0; i < size; i++) timer(start + 1000 + (double)i, 0, ignore_timer, NULL);
  report_memory(size, before);
}

static void memory_fd(void) {
  int *ends = calloc((size_t)size * 2, sizeof *ends);
  for (long i = 0; i < size; i++)
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends + i * 2)) die("socketpair");
  long before = anonymous_bytes();
  for (long i = 0; i < size; i++) watch(loop, ends[i * 2], ignore);
  report_memory(size, before);
}

static void memory_thread(void) {
  long before = anonymous_bytes();
  answer = custom_source(loop, answered, NULL);
  start_workers();
  report_memory(size, before);
}

static const struct {
  const char *name;
  void (*body)(void);
} workloads[] = {{"timers", timers},
                 {"cancel", cancel},
                 {"move", move},
                 {"repeat", repeating},
                 {"lateness", lateness},
                 {"pingpong", pingpong},
                 {"idle", idle},
                 {"wake", wake},
                 {"burst", burst},
                 {"chain", chain},
                 {"signal", signals},
                 {"observers", observers},
                 {"modes", modes},
                 {"echo", echo},
                 {"memory-timer", memory_timer},
                 {"memory-fd", memory_fd},
                 {"memory-thread", memory_thread}};

// Runs on a separate thread: the main loop also serves the dispatch queue, which is not part of the comparison.
static void *body(void *name) {
  loop = CFRunLoopGetCurrent();
  for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
    if (!strcmp(name, workloads[i].name)) {
      workloads[i].body();
      fflush(stdout);
      _exit(0);
    }
  _exit(69);  // not a workload of this peer
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "start")) {
    CFRunLoopGetCurrent();
    return 0;
  }
  if (argc != 4) {
    fprintf(stderr, "usage: corefoundation WORKLOAD SIZE COUNT\n");
    return 64;
  }
  size = atol(argv[2]);
  count = atol(argv[3]);
  pthread_t thread;
  pthread_create(&thread, NULL, body, argv[1]);
  pthread_join(thread, NULL);
}
