// Opening a database, waiting for its locks, and the errors of SQLite.
#define _GNU_SOURCE
#include <errno.h>
#include <libgen.h>
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "private.h"

enum { INSTRUCTIONS_BETWEEN_LOOKS = 1000, LONG_STATEMENT = 2000 /* microseconds */ };

int64_t csqlite_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

int64_t csqlite_microseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

// Returns whether the statement that runs keeps the replies of a group back for too long. Interrupting this statement
// ends the group.
static int holds_others(const csqlite *it) {
  return it->group.first && csqlite_microseconds() - it->began > LONG_STATEMENT;
}

int csqlite_is_cancelled(const csqlite *it) {
  const csqlite_job *job = it->running;
  return job && (job->is_abandoned || job->number <= it->stopped);
}

static int on_progress(void *data) {
  csqlite *it = data;
  it->look(it);
  return csqlite_is_cancelled(it) || holds_others(it);
}

// Called while another process has the lock.
static int on_busy(void *data, int count) {
  csqlite *it = data;
  if (count == 0) it->waits_until = csqlite_now() + it->wait;
  it->look(it);
  // A write that waits for the lock must delay neither the replies of other writes nor the release of their locks.
  if (it->group.first || csqlite_is_cancelled(it) || csqlite_now() >= it->waits_until) return 0;
  struct timespec pause = {.tv_nsec = count < 10 ? 1000000 : 5000000};
  nanosleep(&pause, NULL);
  // The lock may be free by now, and a short statement does not call the progress handler.
  return !csqlite_is_cancelled(it);
}

// Failures ------------------------------------------------------------------------------------------------------------

typedef struct {
  int code;
  const char *name, *kind;
} meaning;

#define NAMED(code, kind) \
  { code, #code, kind }
// Extended codes come before the codes that they extend.
static const meaning meanings[] = {
    NAMED(SQLITE_CONSTRAINT_UNIQUE, "EEXIST"),
    NAMED(SQLITE_CONSTRAINT_PRIMARYKEY, "EEXIST"),
    NAMED(SQLITE_CONSTRAINT_ROWID, "EEXIST"),
    NAMED(SQLITE_CONSTRAINT_FOREIGNKEY, "CONSTRAINT"),
    NAMED(SQLITE_CONSTRAINT_NOTNULL, "CONSTRAINT"),
    NAMED(SQLITE_CONSTRAINT_CHECK, "CONSTRAINT"),
    NAMED(SQLITE_CONSTRAINT_TRIGGER, "CONSTRAINT"),
    NAMED(SQLITE_CONSTRAINT_COMMITHOOK, "CONSTRAINT"),
    NAMED(SQLITE_CONSTRAINT_DATATYPE, "CONSTRAINT"),
    NAMED(SQLITE_CONSTRAINT, "CONSTRAINT"),
    NAMED(SQLITE_BUSY_SNAPSHOT, "EAGAIN"),
    NAMED(SQLITE_BUSY_TIMEOUT, "EAGAIN"),
    NAMED(SQLITE_BUSY, "EAGAIN"),
    NAMED(SQLITE_LOCKED, "EAGAIN"),
    NAMED(SQLITE_PERM, "EACCES"),
    NAMED(SQLITE_AUTH, "EACCES"),
    NAMED(SQLITE_MISMATCH, "EINVAL"),
    NAMED(SQLITE_RANGE, "EINVAL"),
    NAMED(SQLITE_TOOBIG, "EINVAL"),
    NAMED(SQLITE_ERROR, "EINVAL"),
    NAMED(SQLITE_FULL, "ENOSPC"),
    NAMED(SQLITE_NOMEM, "ENOSPC"),
    NAMED(SQLITE_READONLY, "EROFS"),
    NAMED(SQLITE_IOERR, "EIO"),
    NAMED(SQLITE_CORRUPT, "EIO"),
    NAMED(SQLITE_NOTADB, "EIO"),
    NAMED(SQLITE_INTERRUPT, "ECANCELED"),
    NAMED(SQLITE_CANTOPEN, "EIO"),
};

void csqlite_put_failure(block *reply, const char *kind, const char *name, const char *message) {
  block_byte(reply, REPLY_FAILURE);
  block_text(reply, kind, strlen(kind));
  block_text(reply, name, strlen(name));
  block_text(reply, message, strlen(message));
  block_number(reply, 0);
}

void csqlite_put_index(block *reply, uint64_t index) {
  if (reply->bytes && reply->bytes[0] == REPLY_FAILURE)
    memcpy(reply->bytes + reply->length - sizeof index, &index, sizeof index);
  else block_number(reply, index);
}

void csqlite_put_error(csqlite *it, block *reply, int code) {
  int extended = it->db ? sqlite.extended_errcode(it->db) : code;
  if ((extended & 0xff) != (code & 0xff)) extended = code;
  it->failure = code & 0xff;
  const meaning *found = NULL;
  for (size_t i = 0; !found && i < sizeof meanings / sizeof *meanings; i++)
    if (meanings[i].code == extended || meanings[i].code == (extended & 0xff)) found = &meanings[i];
  csqlite_put_failure(reply, found ? found->kind : "EPROTO", found ? found->name : "SQLITE_ERROR",
                      it->db ? sqlite.errmsg(it->db) : "out of memory");
}

void csqlite_put_done(block *reply) {
  block_byte(reply, REPLY_ROWS);
  for (int i = 0; i < 3; i++) block_number(reply, 0);
}

// Opening -------------------------------------------------------------------------------------------------------------

static int configure(csqlite *it, int flags) {
  sqlite.extended_result_codes(it->db, 1);
  sqlite.busy_handler(it->db, on_busy, it);
  sqlite.progress_handler(it->db, INSTRUCTIONS_BETWEEN_LOOKS, on_progress, it);
  int ignored;
  const int on[] = {SQLITE_DBCONFIG_ENABLE_FKEY, SQLITE_DBCONFIG_DEFENSIVE};
  const int off[] = {SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_DQS_DDL, SQLITE_DBCONFIG_DQS_DML,
                     SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION};
  for (size_t i = 0; i < sizeof on / sizeof *on; i++) sqlite.db_config(it->db, on[i], 1, &ignored);
  for (size_t i = 0; i < sizeof off / sizeof *off; i++) sqlite.db_config(it->db, off[i], 0, &ignored);
  int code = SQLITE_OK;
  if (!(flags & (OPEN_READ_ONLY | OPEN_MEMORY | OPEN_READER)))
    code = sqlite.exec(it->db, "pragma journal_mode = wal", NULL, NULL, NULL);
  if (code == SQLITE_OK)
    code = sqlite.exec(it->db, flags & OPEN_FULL ? "pragma synchronous = full" : "pragma synchronous = normal", NULL,
                       NULL, NULL);
  // The first access to the file: it shows whether the file is a database.
  if (code == SQLITE_OK) code = sqlite.exec(it->db, "select 1 from sqlite_schema limit 1", NULL, NULL, NULL);
  if (code == SQLITE_OK && flags & OPEN_READER) code = sqlite.exec(it->db, "pragma query_only = on", NULL, NULL, NULL);
  return code;
}

// Returns the system's error because of which SQLite cannot open `path`; if the directory is the reason, `path` becomes
// the directory. SQLite's own error belongs to its last attempt only, such as to open the log beside a file whose
// directory is read-only.
static int error_of_path(char *path, int found, int mode) {
  struct stat status;
  int exists = stat(path, &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return EISDIR;
  if (found && found != ENOENT) return found;
  if (exists && access(path, mode & SQLITE_OPEN_READONLY ? R_OK : R_OK | W_OK) != 0) return errno;
  if (!exists && !(mode & SQLITE_OPEN_CREATE)) return ENOENT;
  char directory[PATH_SIZE];
  memcpy(directory, path, strlen(path) + 1);
  const char *parent = dirname(directory);
  if (access(parent, W_OK) == 0) return exists ? EIO : ENOENT;
  int number = errno;
  if (number != ENOENT) memmove(path, parent, strlen(parent) + 1);
  return number;
}

// Not inlined, since its buffers would enlarge the stack frame in which SQLite opens the database.
__attribute__((noinline)) static void put_open_failure(csqlite *it, int code, int mode, block *reply) {
  char text[PATH_SIZE + 100], path[PATH_SIZE];
  if ((code & 0xff) != SQLITE_CANTOPEN && (code & 0xff) != SQLITE_READONLY) {
    csqlite_put_error(it, reply, code);
    return;
  }
  memcpy(path, it->path, strlen(it->path) + 1);
  int number = error_of_path(path, it->db ? sqlite.system_errno(it->db) : 0, mode);
  snprintf(text, sizeof text, "%s (%s)", strerror(number), path);
  csqlite_put_failure(reply, strerrorname_np(number) ? strerrorname_np(number) : "EIO",
                      (code & 0xff) == SQLITE_CANTOPEN ? "SQLITE_CANTOPEN" : "SQLITE_READONLY", text);
}

static int open_path(csqlite *it, const char *path, int mode, int flags) {
  int code = sqlite.open_v2(path, &it->db, mode | SQLITE_OPEN_NOMUTEX, NULL);
  return code == SQLITE_OK ? configure(it, flags) : code;
}

// Opens a file that cannot change, without locks and without a log: its file system is read-only, and it has no log.
// For any other file, returns the code of the first attempt.
__attribute__((noinline)) static int open_constant(csqlite *it, int code, int mode, int flags) {
  char text[PATH_SIZE * 3 + 20], *at = text + sprintf(text, "%s-wal", it->path);
  if (access(it->path, R_OK) != 0 || access(it->path, W_OK) == 0 || errno != EROFS || access(text, F_OK) == 0)
    return code;
  at = text + sprintf(text, "file:");
  for (const char *from = it->path; *from; from++)
    at += sprintf(at, strchr("%?#", *from) ? "%%%02X" : "%c", (unsigned char)*from);
  sprintf(at, "?immutable=1");
  sqlite.close_v2(it->db);
  it->db = NULL;
  return open_path(it, text, mode | SQLITE_OPEN_URI, flags);
}

void csqlite_open(csqlite *it, int flags, block_reader *from, block *reply) {
  size_t length;
  it->wait = (int64_t)read_number(from);
  const char *path = read_text(from, &length);
  if (length >= PATH_SIZE || memchr(path, 0, length)) {
    csqlite_put_failure(reply, "ENAMETOOLONG", "SQLITE_CANTOPEN", "the path is too long or has a zero byte");
    return;
  }
  free(it->path);
  it->path = strndup(path, length);
  if (!it->path) {
    csqlite_put_failure(reply, "ENOSPC", "SQLITE_NOMEM", "out of memory");
    return;
  }
  it->is_memory = (flags & OPEN_MEMORY) != 0;
  int mode = flags & OPEN_READ_ONLY ? SQLITE_OPEN_READONLY
                                    : SQLITE_OPEN_READWRITE | (flags & OPEN_CREATE ? SQLITE_OPEN_CREATE : 0);
  int code = open_path(it, it->path, mode, flags);
  if (code != SQLITE_OK && flags & OPEN_READ_ONLY) code = open_constant(it, code, mode, flags);
  if (code == SQLITE_OK) {
    csqlite_put_done(reply);
    return;
  }
  put_open_failure(it, code, mode, reply);
  sqlite.close_v2(it->db);
  it->db = NULL;
}
