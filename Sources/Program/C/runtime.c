// Replaces parts of Swift's and C++'s libraries that the linker would include although the program does not need them.
// Only builds that contain these libraries replace them (scripts/build).
#ifdef RLHOST_STATIC_RUNTIME
#include <stdint.h>
#include <stdlib.h>

intptr_t _swift_stdlib_getScalarName(uint32_t scalar, uint8_t *buffer, intptr_t capacity);

/// Looks up the name of a Unicode character, such as "GREEK SMALL LETTER ALPHA": this version finds none.
/// `scripts/build.d/loosen` makes the library's own function weak.
///
/// Costs if removed: 550 kB of the program.
intptr_t _swift_stdlib_getScalarName(uint32_t scalar, uint8_t *buffer, intptr_t capacity) {
  return (void)scalar, (void)buffer, (void)capacity, 0;
}

// The C++ library reserves 72 kB for exceptions that are thrown when memory is short. Swift's runtime throws no
// exceptions; when memory is short, the program ends either way.
//
// Costs if removed: two page faults and a system call in each start.
void *__cxa_allocate_exception(size_t size);
void __cxa_free_exception(void *exception);
void *__cxa_allocate_dependent_exception(void);
void __cxa_free_dependent_exception(void *exception);

void *__cxa_allocate_exception(size_t size) { return (void)size, abort(), NULL; }
void __cxa_free_exception(void *exception) { (void)exception; }
void *__cxa_allocate_dependent_exception(void) { return abort(), NULL; }
void __cxa_free_dependent_exception(void *exception) { (void)exception; }

/// Replaces the demangler of C++, which only backtraces and messages of Swift's runtime use; this program does not
/// print those. Reports every name as invalid.
///
/// Costs if removed: 50 kB of the program.
char *__cxa_demangle(const char *name, char *buffer, size_t *length, int *status);
char *__cxa_demangle(const char *name, char *buffer, size_t *length, int *status) {
  (void)name, (void)buffer, (void)length;
  if (status) *status = -2;
  return NULL;
}
#endif
