// GET in pipelines of 100 by hiredis: prints the processor's seconds per answer. See resp.lua.
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  redisContext *context = redisConnect("127.0.0.1", atoi(argv[1]));
  int rounds = atoi(argv[2]);
  if (!context || context->err) return 1;
  clock_t start = clock();
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < 100; i++) redisAppendCommand(context, "GET %s", "key");
    for (int i = 0; i < 100; i++) {
      redisReply *reply = NULL;
      if (redisGetReply(context, (void **)&reply) != REDIS_OK || reply->len != 5) return 1;
      freeReplyObject(reply);
    }
  }
  printf("%.9f\n", (double)(clock() - start) / CLOCKS_PER_SEC / rounds / 100);
  redisFree(context);
  return 0;
}
