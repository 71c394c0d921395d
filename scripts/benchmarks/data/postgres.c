// Prints processor times with libpq and epoll, in microseconds: of a prepared select by key, with one select after the
// other, and of a row of four columns in single-row mode.
#include <postgresql/libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

static int poll_set;

// Waits for the next result; NULL at the end of an answer.
static PGresult *next_result(PGconn *connection) {
  struct epoll_event event;
  while (PQisBusy(connection)) {
    epoll_wait(poll_set, &event, 1, -1);
    if (!PQconsumeInput(connection)) exit(1);
  }
  return PQgetResult(connection);
}

static void report(const char *label, clock_t since, int count) {
  printf("%s\t%f\n", label, (double)(clock() - since) / CLOCKS_PER_SEC / count * 1e6);
}

static void select_by_key(PGconn *connection, int key) {
  char text[16];
  const char *values[] = {text};
  snprintf(text, sizeof text, "%d", key);
  if (!PQsendQueryPrepared(connection, "by_key", 1, values, NULL, NULL, 0)) exit(1);
  PQflush(connection);
  for (PGresult *result; (result = next_result(connection)); PQclear(result))
    if (PQntuples(result) != 1 || strcmp(PQgetvalue(result, 0, 0), "text") != 0) exit(1);
}

int main(int count, char **words) {
  if (count < 4) return 1;
  int n = atoi(words[2]), rows = atoi(words[3]), found = 0;
  PGconn *connection = PQconnectdb(words[1]);
  if (PQstatus(connection) != CONNECTION_OK) return 1;
  PQsetnonblocking(connection, 1);
  poll_set = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  epoll_ctl(poll_set, EPOLL_CTL_ADD, PQsocket(connection), &event);
  PQclear(PQprepare(connection, "by_key", "select text from things where id = $1", 0, NULL));
  clock_t since = clock();
  for (int i = 0; i < n; i++) select_by_key(connection, i % 1000 + 1);
  report("select by key, one after the other", since, n);
  since = clock();
  char text[100];
  snprintf(text, sizeof text, "select * from rows limit %d", rows);
  PQsendQuery(connection, text);
  PQsetSingleRowMode(connection);
  for (PGresult *result; (result = next_result(connection)); PQclear(result))
    for (int row = 0; row < PQntuples(result); row++, found++)
      for (int i = 0; i < 4; i++)
        if (!PQgetvalue(result, row, i)) exit(1);
  if (found != rows) return 1;
  report("a row of 4 columns by rows()", since, rows);
  return 0;
}
