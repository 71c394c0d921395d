// A pool: the queue of jobs, and the threads of its connections. The thread of a connection sleeps while it has no job.
// The loop wakes one thread for all jobs of a pass. A thread wakes the loop once for all jobs that it has completed
// since the last wake-up.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "private.h"

// The functions whose names end in _locked are called with the pool's mutex.

static void note_queue_locked(csqlite_pool *pool) { pool->queued = pool->queue.count; }

// Notes that the loop is to be woken for these lanes, one bit each. A lane has the calls that wait in the same modes:
// see SQLitePool. Returns the lanes for which no wake-up is under way.
static unsigned note_rung_locked(csqlite_pool *pool, unsigned lanes) {
  lanes &= ~pool->rung;
  pool->rung |= lanes;
  return lanes;
}

// Puts a job among those that are done. Returns the lane's bit if the loop has to be woken for it.
static unsigned finish_locked(csqlite_pool *pool, csqlite_job *job) {
  job->state = JOB_DONE;
  csqlite_append(&pool->done, job);
  return note_rung_locked(pool, 1u << job->lane);
}

static void ring(csqlite_pool *pool, unsigned lanes) {
  for (int lane = 0; lanes >> lane; lane++)
    if (lanes >> lane & 1) pool->host.ring(pool->host.context, lane);
}

// Ends all jobs in the queue with a reply. Returns a bit for each lane whose loop has to be woken.
static unsigned answer_queue_locked(csqlite_pool *pool, const block *reply) {
  unsigned lanes = 0;
  for (csqlite_job *job; (job = csqlite_remove_first(&pool->queue));) {
    block_put(&job->reply, reply->bytes, reply->length);
    lanes |= finish_locked(pool, job);
  }
  note_queue_locked(pool);
  return lanes;
}

// Connections ---------------------------------------------------------------------------------------------------------

static csqlite *connection_locked(csqlite_pool *pool, int64_t number) {
  for (int i = 0; i < pool->size; i++)
    if (pool->connections[i] && pool->connections[i]->number == number) return pool->connections[i];
  return NULL;
}

static void wake_locked(csqlite *it) {
  if (!it->is_idle) return;
  it->is_idle = 0;
  sem_post(&it->signal);
}

// Takes a connection out of its pool; its thread ends when it has nothing to do.
static void remove_locked(csqlite *it) {
  csqlite_pool *pool = it->pool;
  it->is_leaving = 1;
  for (int i = 0; i < pool->size; i++) {
    if (pool->connections[i] != it) continue;
    pool->connections[i] = NULL;
    pool->count--;
  }
  wake_locked(it);
}

// Makes a connection, whose thread is to be started without the mutex. Returns NULL if the pool has enough of them.
static csqlite *make_locked(csqlite_pool *pool) {
  if (pool->count >= pool->size || pool->is_closed) return NULL;
  csqlite *it = calloc(1, sizeof *it);
  if (!it) return NULL;
  it->pool = pool;
  it->number = ++pool->made;
  sem_init(&it->signal, 0, 0);
  for (int i = 0; i < pool->size; i++) {
    if (pool->connections[i]) continue;
    pool->connections[i] = it;
    pool->count++;
    pool->users++;
    pool->threads++;
    break;
  }
  return it;
}

// Wakes an idle connection for the queue. With `working_one_does`, wakes no connection if another one already works.
// Returns a connection to start if none is idle.
static csqlite *help_locked(csqlite_pool *pool, int working_one_does) {
  csqlite *idle = NULL;
  int working = 0;
  for (int i = 0; i < pool->size; i++) {
    csqlite *one = pool->connections[i];
    if (!one || one->is_taken) continue;
    if (one->is_idle) idle = one;
    else working++;
  }
  if (!pool->queue.first || (working && working_one_does)) return NULL;
  if (!idle) return make_locked(pool);
  wake_locked(idle);
  return NULL;
}

// Completes the job that closes the pool, once all connections are closed except those that are taken. `ended`: the
// number of threads that have ended.
static void note_closed(csqlite_pool *pool, int ended) {
  unsigned lanes = 0;
  pthread_mutex_lock(&pool->mutex);
  pool->threads -= ended;
  if (pool->closing && pool->threads == pool->count) {
    lanes = finish_locked(pool, pool->closing);
    pool->closing = NULL;
  }
  pthread_mutex_unlock(&pool->mutex);
  ring(pool, lanes);
}

static void release_pool(csqlite_pool *pool) {
  pthread_mutex_lock(&pool->mutex);
  int users = --pool->users;
  pthread_mutex_unlock(&pool->mutex);
  if (users) return;
  csqlite_free_all(&pool->queue);
  csqlite_free_all(&pool->done);
  csqlite_free_all(&pool->pending);
  if (pool->closing) csqlite_job_free(pool->closing);
  pthread_mutex_destroy(&pool->mutex);
  free(pool->connections);
  free(pool->opening.bytes);
  free(pool);
}

static void free_connection(csqlite *it) {
  csqlite_free_all(&it->own);
  free(it->path);
  sem_destroy(&it->signal);
  free(it);
}

// If the pool has no connections, answers each job in its queue with this reply.
static void refuse_all(csqlite_pool *pool, const block *reply) {
  pthread_mutex_lock(&pool->mutex);
  unsigned lanes = pool->count ? 0 : answer_queue_locked(pool, reply);
  pthread_mutex_unlock(&pool->mutex);
  ring(pool, lanes);
}

static void start(csqlite *it) {
  csqlite_pool *pool = it->pool;
  if (pool->host.start(pool->host.context, it)) return;
  pthread_mutex_lock(&pool->mutex);
  remove_locked(it);
  pthread_mutex_unlock(&pool->mutex);
  block failure = {0};
  csqlite_put_failure(&failure, "EAGAIN", "SQLITE_NOMEM", "no thread can be started");
  refuse_all(pool, &failure);
  free(failure.bytes);
  note_closed(pool, 1);
  free_connection(it);
  release_pool(pool);
}

// A connection's thread -----------------------------------------------------------------------------------------------

static csqlite_job *next_job_locked(csqlite *it) {
  csqlite_pool *pool = it->pool;
  csqlite_job *job = csqlite_remove_first(&it->own);
  if (!job && !it->is_taken && !it->is_leaving) {
    job = csqlite_remove_first(&pool->queue);
    note_queue_locked(pool);
  }
  it->has_more = (it->is_taken ? it->own.first : pool->queue.first) != NULL;
  it->last_handed = pool->last_handed;
  // The last job stays the current one until its answer is handed over.
  if (job || !(it->done.first || it->group.first)) it->current = job;
  if (!job) return NULL;
  job->state = JOB_RUNS;
  job->on = it;
  job->since = csqlite_now();
  it->running = job;
  return job;
}

// Hands the jobs over that are done.
static void publish(csqlite *it) {
  if (!it->done.first) return;
  csqlite_pool *pool = it->pool;
  unsigned lanes = 0;
  for (csqlite_job *job = it->done.first; job; job = job->next) lanes |= 1u << job->lane;
  pthread_mutex_lock(&pool->mutex);
  for (csqlite_job *job = it->done.first; job; job = job->next) {
    job->state = JOB_DONE;
    if (it->current == job) it->current = NULL;
  }
  csqlite_append_all(&pool->done, &it->done);
  lanes = note_rung_locked(pool, lanes);
  pthread_mutex_unlock(&pool->mutex);
  ring(pool, lanes);
}

static void look(csqlite *it) {
  publish(it);
  csqlite_pool *pool = it->pool;
  if (!pool->queued) return;
  pthread_mutex_lock(&pool->mutex);
  csqlite *other = help_locked(pool, 0);
  pthread_mutex_unlock(&pool->mutex);
  if (other) start(other);
}

static int64_t has_cursor(const csqlite_job *job) {
  int64_t number = 0;
  if (job->reply.length > sizeof number) memcpy(&number, job->reply.bytes + 1, sizeof number);
  return number;
}

// If the job takes the connection, notes that with the reply. Loops over the rows of a database in memory share its
// only connection.
static void note_taken(csqlite *it, csqlite_job *job) {
  int flags = job->request[1];
  if (it->is_memory && !(flags & TAKES)) return;
  if (job->connection || job->request[0] != REQUEST_RUN || !(flags & (TAKES | IN_LOTS))) return;
  if (!job->reply.bytes || job->reply.bytes[0] != REPLY_ROWS || !(flags & TAKES || has_cursor(job))) return;
  job->taken = it->number;
  pthread_mutex_lock(&it->pool->mutex);
  it->is_taken = 1;
  pthread_mutex_unlock(&it->pool->mutex);
}

// Ends a job for which nobody waits.
static void forget_job(csqlite *it, csqlite_job *job) {
  csqlite_pool *pool = it->pool;
  unsigned lanes = 0;
  pthread_mutex_lock(&pool->mutex);
  it->current = NULL;
  if (job->request[0] == REQUEST_GIVE) {
    it->is_taken = 0;
    if (pool->is_closed) remove_locked(it);
  }
  // Makes the loop check again whether the queue is served.
  if (pool->queue.first) lanes = note_rung_locked(pool, 1);
  pthread_mutex_unlock(&pool->mutex);
  csqlite_job_free(job);
  ring(pool, lanes);
}

// Returns whether the answers that are kept back may wait for the end of the next job, too. A query that takes long
// hands over these answers itself: see `look`. A commit cannot hand over answers, so its time is estimated by the time
// of the last commit.
static int may_keep(csqlite *it, int is_query, int64_t began) {
  if (!it->has_more || it->done.count >= MOST_KEPT) return 0;
  if (is_query) return 1;
  int64_t now = csqlite_microseconds();
  if (it->done.first == it->done.last) it->kept_since = began;
  return now - it->kept_since + now - began < MOST_MICROSECONDS;
}

// Carries out a job. Returns 1 if the job is in a group, which will hand its reply over, or is in the queue again.
static int carry_out(csqlite *it, csqlite_job *job, int is_query) {
  int may_share = csqlite_may_share(it, job);
  if (it->has_group && (!may_share || job->number > it->group_until)) {
    if (!csqlite_end_group(it, job)) return 1;
    publish(it);
  }
  if (may_share && !it->has_group && it->has_more) {
    publish(it);
    csqlite_begin_group(it);
  }
  it->began = is_query ? 0 : csqlite_microseconds();
  it->rows = 0;
  it->failure = 0;
  csqlite_carry_out(it, job->request, job->length, &job->reply);
  it->running = NULL;
  job->rows = it->rows;
  if (!it->has_group) return 0;
  csqlite_add_to_group(it, job);
  if (!it->has_group) publish(it);
  return 1;
}

static void run_job(csqlite *it, csqlite_job *job) {
  int is_query = !job->connection && job->request[0] == REQUEST_RUN && job->request[1] & READS_ONLY &&
                 !(job->request[1] & (IN_LOTS | TAKES));
  if (it->snapshot && (!is_query || job->number > it->snapshot)) csqlite_end_snapshot(it);
  // All queries that are in the queue now read the same snapshot.
  if (is_query && !it->snapshot && it->has_more && it->db) csqlite_begin_snapshot(it);
  if (carry_out(it, job, is_query)) return;
  if (!job->task) {
    forget_job(it, job);
    return;
  }
  note_taken(it, job);
  csqlite_append(&it->done, job);
  if (job->taken || !may_keep(it, is_query, it->began)) publish(it);
}

// Carries out the requests with which a connection begins. If one fails, stores the reason in the pool and returns 0.
static int open_connection(csqlite *it) {
  block_reader from = {it->pool->opening.bytes, it->pool->opening.bytes + it->pool->opening.length, 0};
  block reply = {0};
  uint64_t index = 0;  // the number of the statement in `setup`
  while (from.at < from.end && !from.failed) {
    size_t length;
    const char *request = read_text(&from, &length);
    reply.length = 0;
    csqlite_carry_out(it, request, length, &reply);
    if (reply.failed || !reply.bytes || reply.bytes[0] != REPLY_ROWS) {
      csqlite_put_index(&reply, index);
      pthread_mutex_lock(&it->pool->mutex);
      remove_locked(it);
      pthread_mutex_unlock(&it->pool->mutex);
      refuse_all(it->pool, &reply);
      free(reply.bytes);
      return 0;
    }
    index++;
  }
  free(reply.bytes);
  return 1;
}

void csqlite_work(csqlite *it) {
  csqlite_pool *pool = it->pool;
  it->look = look;
  open_connection(it);
  pthread_mutex_lock(&pool->mutex);
  for (;;) {
    csqlite_job *job = next_job_locked(it);
    if (!job && !it->snapshot && !it->done.first && !it->has_group) {
      if (it->is_leaving) break;
      it->is_idle = 1;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (job) {
      run_job(it, job);
    } else if (it->has_group) {
      csqlite_end_group(it, NULL);
    } else if (it->snapshot) {
      csqlite_end_snapshot(it);
    } else if (it->done.first) {
      publish(it);
    } else {
      while (sem_wait(&it->signal) != 0) {}
    }
    pthread_mutex_lock(&pool->mutex);
  }
  pthread_mutex_unlock(&pool->mutex);
  csqlite_close_database(it);
  note_closed(pool, 1);
  free_connection(it);
  release_pool(pool);
}

// The loop's side -----------------------------------------------------------------------------------------------------

csqlite_pool *csqlite_pool_make(int size, const char *opening, size_t length, csqlite_host host) {
  csqlite_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return NULL;
  pthread_mutex_init(&pool->mutex, NULL);
  pool->connections = calloc((size_t)size, sizeof *pool->connections);
  block_put(&pool->opening, opening, length);
  pool->size = pool->connections ? size : 0;
  pool->host = host;
  pool->users = 1;
  return pool;
}

static void close_all(csqlite_pool *pool, csqlite_job *job, int also_taken) {
  block reply = {0};
  block_byte(&reply, REPLY_CLOSED);
  pthread_mutex_lock(&pool->mutex);
  pool->is_closed = 1;
  csqlite_append_all(&pool->queue, &pool->pending);
  unsigned lanes = answer_queue_locked(pool, &reply);
  for (int i = 0; i < pool->size; i++) {
    csqlite *it = pool->connections[i];
    if (!it || (it->is_taken && !also_taken)) continue;
    if (also_taken && it->current) it->stopped = it->current->number;
    remove_locked(it);
  }
  pool->closing = job;
  pthread_mutex_unlock(&pool->mutex);
  free(reply.bytes);
  ring(pool, lanes);
}

void csqlite_pool_leave(csqlite_pool *pool) {
  close_all(pool, NULL, 1);
  release_pool(pool);
}

void csqlite_pool_close(csqlite_pool *pool, csqlite_job *job, intptr_t task, int lane) {
  job->task = task;
  job->lane = lane;
  close_all(pool, job, 0);
  note_closed(pool, 0);
}

void csqlite_pool_interrupt(csqlite_pool *pool) {
  pthread_mutex_lock(&pool->mutex);
  for (int i = 0; i < pool->size; i++) {
    csqlite *it = pool->connections[i];
    if (it && it->current) it->stopped = it->current->number;
  }
  pthread_mutex_unlock(&pool->mutex);
}

void csqlite_pool_add(csqlite_pool *pool, csqlite_job *job, int64_t connection, intptr_t task, lua_State *coroutine,
                      int lane, int64_t until) {
  job->number = ++pool->last_number;
  job->connection = connection;
  job->task = task;
  job->coroutine = coroutine;
  job->lane = lane;
  job->until = until;
  job->added = csqlite_now();
  csqlite_append(&pool->pending, job);
}

void csqlite_pool_hand_over(csqlite_pool *pool) {
  if (!pool->pending.first) return;
  csqlite *other = NULL;
  unsigned lanes = 0;
  pthread_mutex_lock(&pool->mutex);
  int had_some = pool->queue.first != NULL, is_for_all = 0;
  for (csqlite_job *job; (job = csqlite_remove_first(&pool->pending));) {
    csqlite *own = job->connection ? connection_locked(pool, job->connection) : NULL;
    if (own) {
      csqlite_append(&own->own, job);
      wake_locked(own);
    } else if (job->connection || pool->is_closed) {
      block_byte(&job->reply, REPLY_CLOSED);
      lanes |= finish_locked(pool, job);
    } else {
      csqlite_append(&pool->queue, job);
      is_for_all = 1;
    }
  }
  pool->last_handed = pool->last_number;
  note_queue_locked(pool);
  if (is_for_all) other = help_locked(pool, !had_some);
  pthread_mutex_unlock(&pool->mutex);
  ring(pool, lanes);
  if (other) start(other);
}

csqlite_job *csqlite_pool_take(csqlite_pool *pool) {
  pthread_mutex_lock(&pool->mutex);
  csqlite_job *first = pool->done.first;
  pool->done = (job_list){0};
  pool->rung = 0;
  pthread_mutex_unlock(&pool->mutex);
  return first;
}

int csqlite_pool_abandon(csqlite_pool *pool, csqlite_job *job) {
  int is_removed = csqlite_remove_job(&pool->pending, job);
  if (!is_removed) {
    pthread_mutex_lock(&pool->mutex);
    csqlite *own = job->connection ? connection_locked(pool, job->connection) : NULL;
    if (job->state == JOB_WAITS) is_removed = csqlite_remove_job(own ? &own->own : &pool->queue, job);
    note_queue_locked(pool);
    if (!is_removed) job->is_abandoned = 1;
    if (job->state == JOB_RUNS) pool->cancelled++;
    pthread_mutex_unlock(&pool->mutex);
  }
  if (is_removed) csqlite_job_free(job);
  return is_removed;
}

void csqlite_pool_give_up(csqlite_pool *pool, uint64_t job) {
  pthread_mutex_lock(&pool->mutex);
  csqlite *other = NULL;
  for (int i = 0; i < pool->size; i++) {
    csqlite *it = pool->connections[i];
    if (it && it->current && it->current->number == job) remove_locked(it), other = help_locked(pool, 1);
  }
  pthread_mutex_unlock(&pool->mutex);
  if (other) start(other);
}

int64_t csqlite_pool_expire(csqlite_pool *pool, int64_t now) {
  int64_t next = 0;
  job_list left = {0}, all;
  pthread_mutex_lock(&pool->mutex);
  all = pool->queue;
  pool->queue = (job_list){0};
  for (csqlite_job *job; (job = csqlite_remove_first(&all));) {
    if (job->until > now) {
      if (!next || job->until < next) next = job->until;
      csqlite_append(&left, job);
      continue;
    }
    block_byte(&job->reply, REPLY_LATE);
    finish_locked(pool, job);
  }
  pool->queue = left;
  note_queue_locked(pool);
  pthread_mutex_unlock(&pool->mutex);
  return next;
}

void csqlite_pool_give(csqlite_pool *pool, int64_t connection) {
  csqlite_job *job = calloc(1, sizeof *job + 2);
  if (!job) return;
  job->length = 2;
  job->request[0] = REQUEST_GIVE;
  csqlite_pool_add(pool, job, connection, 0, NULL, 0, INT64_MAX);
  csqlite_pool_hand_over(pool);
}

void csqlite_pool_drop(csqlite_pool *pool, int64_t connection) {
  pthread_mutex_lock(&pool->mutex);
  csqlite *it = connection_locked(pool, connection), *other = NULL;
  if (it) {
    if (it->current) it->stopped = it->current->number;
    remove_locked(it);
    other = help_locked(pool, 1);
  }
  pthread_mutex_unlock(&pool->mutex);
  if (other) start(other);
}

// Looks ---------------------------------------------------------------------------------------------------------------

csqlite_numbers csqlite_pool_numbers(csqlite_pool *pool) {
  csqlite_numbers numbers = {0};
  pthread_mutex_lock(&pool->mutex);
  int is_served = pool->count < pool->size, is_busy = pool->done.first || pool->closing;
  for (int i = 0; i < pool->size; i++) {
    csqlite *it = pool->connections[i];
    if (!it) continue;
    int is_given = it->own.last && it->own.last->request[0] == REQUEST_GIVE;
    if (it->current && it->current->request[0] == REQUEST_GIVE) is_given = 1;
    if ((it->is_taken && !is_given) || (it->current && !is_given)) numbers.in_use++;
    if (!it->is_taken || is_given) is_served = 1;
    if (it->current || it->own.first) is_busy = 1;
  }
  numbers.connections = pool->count;
  numbers.waiting = pool->queue.count + pool->pending.count;
  numbers.cancelled = pool->cancelled;
  numbers.is_busy = is_busy || (is_served && pool->queue.first);
  pthread_mutex_unlock(&pool->mutex);
  return numbers;
}

intptr_t csqlite_pool_longest(csqlite_pool *pool, double *seconds) {
  int64_t since = INT64_MAX, now = csqlite_now();
  intptr_t task = 0;
  pthread_mutex_lock(&pool->mutex);
  for (int i = 0; i < pool->size; i++) {
    csqlite *it = pool->connections[i];
    if (!it || !it->current || it->current->is_abandoned || it->current->since >= since) continue;
    since = it->current->since;
    task = it->current->task;
  }
  pthread_mutex_unlock(&pool->mutex);
  *seconds = task ? (double)(now - since) / 1000 : 0;
  return task;
}

int csqlite_pool_tasks(csqlite_pool *pool, intptr_t *to, int most) {
  int count = 0;
  pthread_mutex_lock(&pool->mutex);
  for (int i = 0; i < pool->size; i++) {
    csqlite *it = pool->connections[i];
    if (!it) continue;
    if (it->current && it->current->task && !it->current->is_abandoned && count < most) to[count++] = it->current->task;
    count = csqlite_note_tasks(it->own.first, to, count, most);
  }
  count = csqlite_note_tasks(pool->queue.first, to, count, most);
  count = csqlite_note_tasks(pool->pending.first, to, count, most);
  pthread_mutex_unlock(&pool->mutex);
  return count;
}

const char *csqlite_pool_text(csqlite_pool *pool, lua_State *coroutine, intptr_t *task, size_t *length) {
  pthread_mutex_lock(&pool->mutex);
  const csqlite_job *job = csqlite_find_job(&pool->pending, coroutine);
  if (!job) job = csqlite_find_job(&pool->queue, coroutine);
  for (int i = 0; i < pool->size && !job; i++) {
    csqlite *it = pool->connections[i];
    if (!it) continue;
    job = csqlite_is_of(it->current, coroutine) ? it->current : csqlite_find_job(&it->own, coroutine);
  }
  pthread_mutex_unlock(&pool->mutex);
  // Jobs for which a task waits are freed by this thread only, so this one still exists.
  if (job) *task = job->task;
  return job ? csqlite_text_of(job, length) : NULL;
}
