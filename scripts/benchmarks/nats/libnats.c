// Measures the cost of libnats: URL WORKLOAD COUNT. Prints "cpu" and "wall" in microseconds per operation.
#include <nats/nats.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char data[] = "0123456789abcdef";
static natsConnection *connection;
static long count;

static double seconds(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void check(natsStatus status) {
  if (status == NATS_OK) return;
  fprintf(stderr, "libnats: %s\n", natsStatus_GetText(status));
  exit(1);
}

static double cpu, wall;
static void begin(void) {
  cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
  wall = seconds(CLOCK_MONOTONIC);
}

static void end(void) {
  printf("cpu\t%f\nwall\t%f\n", (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (double)count * 1e6,
         (seconds(CLOCK_MONOTONIC) - wall) / (double)count * 1e6);
  exit(0);
}

static void publish(void) {
  for (long i = 0; i < count; i++) check(natsConnection_Publish(connection, "bench", data, 16));
  check(natsConnection_FlushTimeout(connection, 60000));
}

static long received;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;

static void handle(natsConnection *nc, natsSubscription *subscription, natsMsg *message, void *closure) {
  (void)nc, (void)subscription, (void)closure;
  natsMsg_Destroy(message);
  if (++received < count) return;
  pthread_mutex_lock(&mutex);
  pthread_cond_signal(&over);
  pthread_mutex_unlock(&mutex);
}

static void receive(void) {
  natsSubscription *subscription;
  check(natsConnection_Subscribe(&subscription, connection, "bench", handle, NULL));
  check(natsSubscription_SetPendingLimits(subscription, -1, -1));
  check(natsConnection_Flush(connection));
  printf("ready\n");
  fflush(stdout);
  begin();
  pthread_mutex_lock(&mutex);
  while (received < count) pthread_cond_wait(&over, &mutex);
  end();
}

static void request(void) {
  for (long i = 0; i < count; i++) {
    natsMsg *answer;
    check(natsConnection_Request(&answer, connection, "echo", data, 16, 5000));
    natsMsg_Destroy(answer);
  }
}

int main(int argc, char **argv) {
  if (argc < 4) return 64;
  count = atol(argv[3]);
  check(natsConnection_ConnectTo(&connection, argv[1]));
  if (!strcmp(argv[2], "receive")) receive();
  begin();
  if (!strcmp(argv[2], "publish")) {
    publish();
  } else if (!strcmp(argv[2], "request")) {
    request();
  } else {
    return 3;
  }
  end();
}
