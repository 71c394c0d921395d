// Jobs, and lists of them.
#include <stdlib.h>

#include "private.h"

static _Thread_local csqlite_job *lent;

void csqlite_lend(lua_State *L, csqlite_job *job, int how) {
  job->lent = how;
  job->next = lent;
  lent = job;
  lua_pushlightuserdata(L, job);
}

csqlite_job *csqlite_lent_at(lua_State *L, int index, int how) {
  if (!lua_islightuserdata(L, index)) return NULL;
  const void *wanted = lua_touserdata(L, index);
  csqlite_job *job = lent;
  while (job && (job != wanted || job->lent != how)) job = job->next;
  return job;
}

void csqlite_take_back(csqlite_job *job) {
  csqlite_job **at = &lent;
  while (*at && *at != job) at = &(*at)->next;
  if (*at) *at = job->next;
  job->next = NULL;
}

csqlite_job *csqlite_take_request(lua_State *L, int index) {
  csqlite_job *job = csqlite_lent_at(L, index, LENT_REQUEST);
  if (job) csqlite_take_back(job);
  return job;
}

void csqlite_append(job_list *list, csqlite_job *job) {
  job->next = NULL;
  if (list->last) list->last->next = job;
  else list->first = job;
  list->last = job;
  list->count++;
}

void csqlite_append_all(job_list *list, job_list *other) {
  if (!other->first) return;
  if (list->last) list->last->next = other->first;
  else list->first = other->first;
  list->last = other->last;
  list->count += other->count;
  *other = (job_list){0};
}

csqlite_job *csqlite_remove_first(job_list *list) {
  csqlite_job *job = list->first;
  if (!job) return NULL;
  list->first = job->next;
  if (!list->first) list->last = NULL;
  list->count--;
  job->next = NULL;
  return job;
}

int csqlite_remove_job(job_list *list, csqlite_job *job) {
  csqlite_job *before = NULL;
  for (csqlite_job *one = list->first; one; before = one, one = one->next) {
    if (one != job) continue;
    if (before) before->next = job->next;
    else list->first = job->next;
    if (list->last == job) list->last = before;
    list->count--;
    return 1;
  }
  return 0;
}

csqlite_job *csqlite_job_next(csqlite_job *job) { return job->next; }
int64_t csqlite_job_taken(csqlite_job *job) { return job->taken; }
intptr_t csqlite_job_task(csqlite_job *job) { return job->is_abandoned ? 0 : job->task; }
int csqlite_job_lane(csqlite_job *job) { return job->lane; }
uint64_t csqlite_job_number(csqlite_job *job) { return job->number; }

void csqlite_job_set_record(csqlite_job *job, uint64_t record) { job->record = record; }
uint64_t csqlite_job_record(const csqlite_job *job) { return job->record; }

csqlite_outcome csqlite_job_outcome(const csqlite_job *job) {
  int kind = job->reply.bytes ? job->reply.bytes[0] : REPLY_FAILURE;
  return (csqlite_outcome){
      .rows = job->rows,
      .waited = job->since ? job->since - job->added : 0,
      .has_failed = job->reply.failed || (kind != REPLY_ROWS && kind != REPLY_BATCH && kind != REPLY_WRITES),
  };
}

void csqlite_job_free(csqlite_job *job) {
  free(job->reply.bytes);
  free(job);
}

void csqlite_free_all(job_list *list) {
  for (csqlite_job *job; (job = csqlite_remove_first(list));) csqlite_job_free(job);
}

int csqlite_note_tasks(const csqlite_job *job, intptr_t *to, int count, int most) {
  for (; job && count < most; job = job->next)
    if (job->task && !job->is_abandoned) to[count++] = job->task;
  return count;
}

const char *csqlite_text_of(const csqlite_job *job, size_t *length) {
  block_reader from = {job->request + 2, job->request + job->length, 0};
  int operation = job->request[0];
  if (operation == REQUEST_BATCH) {
    read_number(&from);
    from.at += 2;
  }
  if (operation == REQUEST_RUN || operation == REQUEST_BATCH)
    for (int i = 0; i < 3; i++) read_number(&from);
  else if (operation != REQUEST_SCRIPT) return NULL;
  return read_text(&from, length);
}

int csqlite_is_of(const csqlite_job *job, lua_State *coroutine) {
  return job && job->task && job->coroutine == coroutine && !job->is_abandoned;
}

const csqlite_job *csqlite_find_job(const job_list *list, lua_State *coroutine) {
  const csqlite_job *job = list->first;
  while (job && !csqlite_is_of(job, coroutine)) job = job->next;
  return job;
}

lua_State *csqlite_coroutine(lua_State *L, int index) { return lua_tothread(L, index); }
