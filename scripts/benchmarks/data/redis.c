// Prints the microseconds of processor time of a GET with hiredis: with one GET after the other, and with pipelines of
// 100.
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void get(redisContext *server) {
  redisReply *reply = redisCommand(server, "GET key");
  if (!reply || reply->type != REDIS_REPLY_STRING) exit(1);
  freeReplyObject(reply);
}

static double microseconds(clock_t since, int count) {
  return (double)(clock() - since) / CLOCKS_PER_SEC / count * 1e6;
}

int main(int count, char **words) {
  if (count < 3) return 1;
  redisContext *server = redisConnect("127.0.0.1", atoi(words[1]));
  int n = atoi(words[2]);
  if (!server || server->err) return 1;
  clock_t since = clock();
  for (int i = 0; i < n; i++) get(server);
  printf("GET, one after the other\t%f\n", microseconds(since, n));
  since = clock();
  for (int i = 0; i < n / 100; i++) {
    for (int k = 0; k < 100; k++) redisAppendCommand(server, "GET key");
    for (int k = 0; k < 100; k++) {
      void *reply = NULL;
      if (redisGetReply(server, &reply) != REDIS_OK) return 1;
      freeReplyObject(reply);
    }
  }
  printf("GET in a batch of 100\t%f\n", microseconds(since, n));
  return 0;
}
