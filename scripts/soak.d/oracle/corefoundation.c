// Runs a program of scripts/soak corefoundation on CoreFoundation's run loop, and prints its events. program.lua does
// the same on the run loop of rlhost.
#include <CoreFoundation/CoreFoundation.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 64, CALLS = 64, LINE = 512 };

// The actions of an item at its n-th call: the ops of one line.
static struct {
  char name[16];
  char *ops[CALLS];
  int calls;
} items[ITEMS];
static int item_count;
static CFRunLoopRef loop;
static CFRunLoopSourceRef sources[8];

static int item(const char *name) {
  for (int i = 0; i < item_count; i++)
    if (strcmp(items[i].name, name) == 0) return i;
  if (item_count == ITEMS) exit(2);
  snprintf(items[item_count].name, sizeof items->name, "%s", name);
  return item_count++;
}

static CFStringRef mode_of(const char *name) {
  return strcmp(name, "default") == 0 ? kCFRunLoopDefaultMode
                                      : CFStringCreateWithCString(NULL, name, kCFStringEncodingUTF8);
}

static void act(const char *ops);

static void call(const char *name) {
  int i = item(name), n = items[i].calls++;
  if (n < CALLS && items[i].ops[n]) act(items[i].ops[n]);
}

static void perform(char *name, char *modes) {
  CFMutableArrayRef list = CFArrayCreateMutable(NULL, 0, &kCFTypeArrayCallBacks);
  char *rest = modes;
  for (char *mode; (mode = strsep(&rest, ","));) CFArrayAppendValue(list, mode_of(mode));
  char *own = strdup(name);
  CFRunLoopPerformBlock(loop, list, ^{
    printf("%s\n", own);
    call(own);
  });
  CFRunLoopWakeUp(loop);
}

static void run(const char *mode, double seconds) {
  printf("run %s\n", mode);
  printf("= %d\n", (int)CFRunLoopRunInMode(mode_of(mode), seconds, false));
}

static void act(const char *line) {
  char copy[LINE], *rest = copy;
  snprintf(copy, sizeof copy, "%s", line);
  for (char *op; (op = strsep(&rest, ";"));) {
    char word[16] = "", a[32] = "", b[32] = "";
    sscanf(op, " %15s %31s %31s", word, a, b);
    if (strcmp(word, "signal") == 0) CFRunLoopSourceSignal(sources[atoi(a)]);
    else if (strcmp(word, "perform") == 0) perform(a, b);
    else if (strcmp(word, "wake") == 0) CFRunLoopWakeUp(loop);
    else if (strcmp(word, "stop") == 0) CFRunLoopStop(loop);
    else if (strcmp(word, "run") == 0) run(a, atof(b));
  }
}

static void observed(CFRunLoopObserverRef observer, CFRunLoopActivity activity, void *info) {
  static const struct {
    CFRunLoopActivity activity;
    const char *name;
  } names[] = {{kCFRunLoopEntry, "entry"},
               {kCFRunLoopBeforeTimers, "before_timers"},
               {kCFRunLoopBeforeSources, "before_sources"},
               {kCFRunLoopBeforeWaiting, "before_waiting"},
               {kCFRunLoopAfterWaiting, "after_waiting"},
               {kCFRunLoopExit, "exit"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].activity == activity) printf("%s %s\n", (char *)info, names[i].name);
  call(info);
}

static void performed(void *info) {
  char name[16];
  snprintf(name, sizeof name, "S%d", (int)(intptr_t)info);
  printf("%s\n", name);
  call(name);
}

static void *body(void *path) {
  loop = CFRunLoopGetCurrent();
  FILE *file = fopen(path, "r");
  char line[LINE];
  if (!file) exit(2);
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    char name[16];
    int n, at = 0;
    if (sscanf(line, "source %d %d", &n, &at) == 2) {
      CFRunLoopSourceContext context = {.info = (void *)(intptr_t)n, .perform = performed};
      sources[n] = CFRunLoopSourceCreate(NULL, at, &context);
      CFRunLoopAddSource(loop, sources[n], kCFRunLoopDefaultMode);
      CFRunLoopAddSource(loop, sources[n], mode_of("a"));
    } else if (sscanf(line, "observer %15s", name) == 1) {
      CFRunLoopObserverContext context = {.info = strdup(name)};
      CFRunLoopAddObserver(loop, CFRunLoopObserverCreate(NULL, kCFRunLoopAllActivities, true, 0, observed, &context),
                           mode_of(name));
    } else if (sscanf(line, "on %15s %d %n", name, &n, &at) == 2 && n < CALLS) {
      items[item(name)].ops[n] = strdup(line + at);
    } else if (strncmp(line, "do ", 3) == 0) {
      act(line + 3);
    }
  }
  return NULL;
}

int main(int count, char **arguments) {
  pthread_t thread;
  if (count < 2 || pthread_create(&thread, NULL, body, arguments[1]) != 0) return 2;
  pthread_join(thread, NULL);
  return 0;
}
