// Prints the microseconds of processor time of a select by key with SQLite's own calls, and the microseconds that an
// insert with its commit takes.
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(clockid_t which) {
  struct timespec time;
  clock_gettime(which, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

int main(int count, char **words) {
  if (count < 3) return 1;
  sqlite3 *database;
  sqlite3_stmt *statement;
  int n = atoi(words[2]);
  if (sqlite3_open(words[1], &database)) return 1;
  sqlite3_exec(database, "pragma journal_mode = wal; pragma synchronous = normal", NULL, NULL, NULL);
  if (sqlite3_prepare_v2(database, "select text from things where id = ?", -1, &statement, NULL)) return 1;
  double since = now(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < n; i++) {
    sqlite3_bind_int(statement, 1, i % 1000 + 1);
    if (sqlite3_step(statement) != SQLITE_ROW || !sqlite3_column_text(statement, 0)) return 1;
    sqlite3_step(statement);
    sqlite3_reset(statement);
  }
  printf("select by key by 50 tasks, CPU\t%f\n", (now(CLOCK_PROCESS_CPUTIME_ID) - since) / n);
  sqlite3_finalize(statement);
  if (sqlite3_prepare_v2(database, "insert into log (text) values (?)", -1, &statement, NULL)) return 1;
  since = now(CLOCK_MONOTONIC);
  for (int i = 0; i < 1000; i++) {
    sqlite3_bind_text(statement, 1, "text", 4, SQLITE_STATIC);
    if (sqlite3_step(statement) != SQLITE_DONE) return 1;
    sqlite3_reset(statement);
  }
  printf("an insert of 1000 by 100 tasks, time\t%f\n", (now(CLOCK_MONOTONIC) - since) / 1000);
  sqlite3_finalize(statement);
  return sqlite3_close(database);
}
