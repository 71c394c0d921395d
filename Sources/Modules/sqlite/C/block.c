// Blocks of bytes, and the library.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "private.h"

void block_put(block *to, const void *bytes, size_t length) {
  if (to->capacity - to->length < length) {
    size_t capacity = to->capacity ? to->capacity * 2 : 256;
    while (capacity - to->length < length) capacity *= 2;
    char *larger = realloc(to->bytes, capacity);
    if (!larger) {
      to->failed = 1;
      return;
    }
    to->bytes = larger;
    to->capacity = capacity;
  }
  if (length) memcpy(to->bytes + to->length, bytes, length);
  to->length += length;
}

void block_byte(block *to, int value) {
  char byte = (char)value;
  block_put(to, &byte, 1);
}

void block_number(block *to, uint64_t value) { block_put(to, &value, sizeof value); }

void block_text(block *to, const char *text, size_t length) {
  block_number(to, length);
  block_put(to, text, length);
}

static const char *take(block_reader *from, size_t length) {
  if ((size_t)(from->end - from->at) < length) {
    from->failed = 1;
    from->at = from->end;
    return NULL;
  }
  const char *at = from->at;
  from->at += length;
  return at;
}

int read_byte(block_reader *from) {
  const char *at = take(from, 1);
  return at ? (unsigned char)*at : 0;
}

uint64_t read_number(block_reader *from) {
  uint64_t value = 0;
  const char *at = take(from, sizeof value);
  if (at) memcpy(&value, at, sizeof value);
  return value;
}

const char *read_text(block_reader *from, size_t *length) {
  *length = read_number(from);
  const char *at = take(from, *length);
  if (!at) *length = 0;
  return at ? at : "";
}

// The library ---------------------------------------------------------------------------------------------------------

sqlite_library sqlite;
static const char *problem = "it was never loaded";
static char problem_text[200];

static void load(void) {
  void *library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    problem = "SQLite needs libsqlite3: apt install libsqlite3-0";
    return;
  }
#define EACH(name)                                                                                          \
  if (!(sqlite.name = dlsym(library, "sqlite3_" #name))) {                                                  \
    snprintf(problem_text, sizeof problem_text, "this libsqlite3 is too old: it has no sqlite3_%s", #name); \
    problem = problem_text;                                                                                 \
    return;                                                                                                 \
  }
  SQLITE_FUNCTIONS(EACH)
#undef EACH
  problem = NULL;
}

const char *csqlite_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return problem;
}
