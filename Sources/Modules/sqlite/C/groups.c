// Writes that share a commit. Writes of several tasks that wait at the same time run in one transaction, and their
// replies are handed over after its commit. A task must not notice that its write shares a transaction: if the
// transaction could end in another way than its writes would alone, it is rolled back, and each of the writes runs
// again alone.
#include "private.h"

int csqlite_may_share(csqlite *it, const csqlite_job *job) {
  const int never = READS_ONLY | CONTROLS | IN_LOTS | TAKES | IN_TRANSACTION;
  if (job->connection || !job->task || job->request[0] != REQUEST_RUN || job->request[1] & never) return 0;
  return it->db && !it->is_memory && !job->is_alone && csqlite_is_write(it, job);
}

void csqlite_begin_group(csqlite *it) {
  // Not `begin immediate`, which would also take the locks of attached files. A write takes the locks that it needs by
  // itself.
  it->has_group = csqlite_step_once(it, &it->begin, "begin") == SQLITE_DONE;
  it->group_until = it->last_handed;
  it->group_since = csqlite_microseconds();
  it->group_rowid = sqlite.last_insert_rowid(it->db);
}

// Undoes a group, and puts its writes back at the head of the queue, so that each runs by itself. As other jobs in the
// queue, they may still be cancelled, be too late, or end with the database.
static void give_up(csqlite *it) {
  if (!sqlite.get_autocommit(it->db)) csqlite_step_once(it, &it->end, "rollback");
  sqlite.set_last_insert_rowid(it->db, it->group_rowid);
  it->has_group = 0;
  csqlite_pool *pool = it->pool;
  pthread_mutex_lock(&pool->mutex);
  for (csqlite_job *job = it->group.first; job; job = job->next) {
    job->reply.length = 0;
    job->reply.failed = 0;
    job->is_alone = 1;
    job->state = JOB_WAITS;
  }
  // A connection that has left its pool carries out only its own jobs.
  job_list *to = it->is_leaving ? &it->own : &pool->queue;
  csqlite_append_all(&it->group, to);
  csqlite_append_all(to, &it->group);
  pool->queued = pool->queue.count;
  it->current = it->running = NULL;
  pthread_mutex_unlock(&pool->mutex);
}

int csqlite_end_group(csqlite *it, csqlite_job *next) {
  if (!it->has_group) return 1;
  // During the commit, `running` is NULL: a failure of the commit belongs to no single write, and an interruption that
  // is meant for the next job must not hit the commit.
  csqlite_job *running = it->running;
  it->running = NULL;
  int is_good = csqlite_step_once(it, &it->commit, "commit") == SQLITE_DONE;
  it->running = running;
  if (!is_good) {
    if (next) csqlite_append(&it->group, next);
    give_up(it);
    return 0;
  }
  it->has_group = 0;
  csqlite_append_all(&it->done, &it->group);
  return 1;
}

// Returns whether a statement has failed because of itself or the contents of the database. A failure because of a
// lock, a file or a shortage may disappear when the statement runs alone.
static int is_own_failure(int code) {
  return code == SQLITE_CONSTRAINT || code == SQLITE_ERROR || code == SQLITE_MISMATCH || code == SQLITE_RANGE ||
         code == SQLITE_TOOBIG;
}

void csqlite_add_to_group(csqlite *it, csqlite_job *job) {
  int deferred = 0, ignored, must_end = !it->has_more || it->group.count + 1 >= MOST_KEPT;
  csqlite_append(&it->group, job);
  sqlite.db_status(it->db, SQLITE_DBSTATUS_DEFERRED_FKS, &deferred, &ignored, 0);
  // The first write of a group has waited for the lock as long as it would have alone.
  int has_waited = it->failure == SQLITE_BUSY && it->group.count == 1;
  int is_doubtful = it->failure && !is_own_failure(it->failure) && !has_waited;
  // A statement that was interrupted, a full disk or `on conflict rollback` have ended the transaction. If a write
  // violates a deferred foreign key, the group's commit would fail, unless a later write of another task ended the
  // violation.
  if (is_doubtful || deferred || sqlite.get_autocommit(it->db)) give_up(it);
  else if (must_end || has_waited || csqlite_microseconds() - it->group_since >= MOST_MICROSECONDS)
    csqlite_end_group(it, NULL);
}
