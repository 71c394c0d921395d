#define _GNU_SOURCE
#include "pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { IDLE_SECONDS = 10, STACK = 1 << 19 };

struct job {
  struct job *next;
  void (*work)(void *);
  void *context;
};

struct net_pool {
  pthread_mutex_t lock;
  pthread_cond_t more;
  struct job *first, **end;
  int threads, idle, limit, waiting;
  const char *name;
};

struct net_pool *net_pool_make(const char *name, int limit) {
  struct net_pool *pool = calloc(1, sizeof *pool);
  if (!pool) abort();
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->more, &attributes);
  pthread_condattr_destroy(&attributes);
  pool->end = &pool->first;
  pool->limit = limit;
  pool->name = name;
  return pool;
}

static void *run(void *argument) {
  struct net_pool *pool = argument;
  pthread_setname_np(pthread_self(), pool->name);
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += IDLE_SECONDS;
    int late = 0;
    while (!pool->first && !late) {
      pool->idle++;
      late = pthread_cond_timedwait(&pool->more, &pool->lock, &end) == ETIMEDOUT;
      pool->idle--;
    }
    struct job *job = pool->first;
    if (!job) break;
    if (!(pool->first = job->next)) pool->end = &pool->first;
    pool->waiting--;
    pthread_mutex_unlock(&pool->lock);
    job->work(job->context);
    free(job);
    pthread_mutex_lock(&pool->lock);
  }
  pool->threads--;
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

static int start(struct net_pool *pool) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, STACK);
  // It inherits the mask: the process's signals are for others.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  int failure = pthread_create(&thread, &attributes, run, pool);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return failure;
}

int net_pool_run(struct net_pool *pool, void (*work)(void *), void *context) {
  struct job *job = malloc(sizeof *job);
  if (!job) return ENOMEM;
  *job = (struct job){.work = work, .context = context};
  pthread_mutex_lock(&pool->lock);
  if (pool->idle <= pool->waiting && pool->threads < pool->limit) {
    int failure = start(pool);
    if (failure == 0) {
      pool->threads++;
    } else if (pool->threads == 0) {
      pthread_mutex_unlock(&pool->lock);
      free(job);
      return failure;
    }
  }
  *pool->end = job;
  pool->end = &job->next;
  pool->waiting++;
  pthread_cond_signal(&pool->more);
  pthread_mutex_unlock(&pool->lock);
  return 0;
}
