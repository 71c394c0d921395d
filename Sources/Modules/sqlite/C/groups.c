// Writes that share a commit. Writes of several tasks that wait at the same time run in one transaction, and their
// replies are handed over after its commit. A write must not notice the others: if a transaction could end in another
// way than each write by itself, it is rolled back, and each of its writes runs again, by itself.
#include "private.h"

enum { MOST_WRITES = 64, MOST_MICROSECONDS = 200 };

int csqlite_may_share(csqlite *it, const csqlite_job *job) {
  const int never = READS_ONLY | CONTROLS | IN_LOTS | TAKES | IN_TRANSACTION;
  if (job->connection || !job->task || job->request[0] != REQUEST_RUN || job->request[1] & never) return 0;
  return it->db && !it->is_memory && csqlite_is_write(it, job);
}

void csqlite_begin_group(csqlite *it, csqlite_job *job) {
  int code = csqlite_step_once(it, &it->begin_write, "begin immediate");
  it->has_group = code == SQLITE_DONE;
  it->group_until = it->last_handed;
  it->group_since = csqlite_microseconds();
  // The write itself would wait for the same lock once more.
  if ((code & 0xff) == SQLITE_BUSY) csqlite_put_error(it, &job->reply, code);
}

// Carries out each write of a group by itself.
static void repeat_all(csqlite *it) {
  uint64_t current = it->job;
  job_list all = it->group;
  it->group = (job_list){0};
  it->has_group = 0;
  if (!sqlite.get_autocommit(it->db)) csqlite_step_once(it, &it->end, "rollback");
  for (csqlite_job *job; (job = csqlite_remove_first(&all));) {
    job->reply.length = 0;
    job->reply.failed = 0;
    it->job = job->number;
    it->rows = 0;
    csqlite_carry_out(it, job->request, job->length, &job->reply);
    job->rows = it->rows;
    csqlite_append(&it->done, job);
  }
  it->job = current;
}

void csqlite_end_group(csqlite *it) {
  if (!it->has_group) return;
  // No failure of a commit belongs to one write. It must not be interrupted because of the job that comes next.
  uint64_t current = it->job;
  it->job = 0;
  int is_good = csqlite_step_once(it, &it->commit, "commit") == SQLITE_DONE;
  it->job = current;
  if (!is_good) repeat_all(it);
  it->has_group = 0;
  csqlite_append_all(&it->done, &it->group);
}

void csqlite_add_to_group(csqlite *it, csqlite_job *job) {
  int deferred = 0, ignored;
  csqlite_append(&it->group, job);
  sqlite.db_status(it->db, SQLITE_DBSTATUS_DEFERRED_FKS, &deferred, &ignored, 0);
  // A statement that was interrupted, a full disk or `on conflict rollback` have ended the transaction. A violated
  // foreign key that is deferred would be the commit's failure, or disappear with the next write.
  if (deferred || sqlite.get_autocommit(it->db)) repeat_all(it);
  else if (!it->has_more || it->group.count >= MOST_WRITES ||
           csqlite_microseconds() - it->group_since >= MOST_MICROSECONDS)
    csqlite_end_group(it);
}
