// Swift's library brings a crash reporter: a constructor that reads the environment, and handlers that start another
// program. The reporter's object is linked because the runtime refers to these five symbols. With these symbols defined
// here, the linker leaves the object out, and start.c explains a trap instead. The definitions are weak, since a build
// with shared libraries has the real symbols.
//
// Costs if removed: about 0.1 ms of each start.
#include <stdbool.h>
#include <stddef.h>

/// Swift's `BacktraceSettings`, all zero: the runtime prints no backtraces. The settings have 88 bytes in Swift 6.3;
/// the array has room for larger ones.
__attribute__((weak)) struct { long words[64]; } _swift_backtraceSettings;

__attribute__((weak)) bool _swift_backtrace_isThunkFunction(const char *name);
__attribute__((weak)) char *_swift_backtrace_demangle(const char *name, size_t length, char *buffer, size_t *size);
__attribute__((weak)) bool _swift_spawnBacktracer(const void *info, int memory_server);
__attribute__((weak)) void _swift_displayCrashMessage(int signal, const void *pc);

bool _swift_backtrace_isThunkFunction(const char *name) { return (void)name, false; }

char *_swift_backtrace_demangle(const char *name, size_t length, char *buffer, size_t *size) {
  (void)name, (void)length, (void)buffer, (void)size;
  return NULL;
}

bool _swift_spawnBacktracer(const void *info, int memory_server) { return (void)info, (void)memory_server, false; }

void _swift_displayCrashMessage(int signal, const void *pc) { (void)signal, (void)pc; }
