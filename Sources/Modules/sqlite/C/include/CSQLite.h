// CSQLite: the native half of `runloop.sqlite`. libsqlite3 is opened at the first use. A pool has a queue of jobs, and
// connections with a thread each, which carry the jobs out. Lua functions write jobs and read their replies, which are
// blocks of bytes.
#pragma once

#include <lua.h>
#include <stddef.h>
#include <stdint.h>

/// Some connections to one file, and the jobs that wait for them. Unless a comment says otherwise, functions may be
/// called only on the thread of the pool's loop.
typedef struct csqlite_pool csqlite_pool;
/// A connection, which belongs to its thread.
typedef struct csqlite csqlite;
/// A request and its reply.
typedef struct csqlite_job csqlite_job;

typedef struct {
  /// Called on any thread when jobs with this lane are done, once until the next csqlite_pool_take.
  void (*ring)(void *context, int lane);
  /// Starts a thread that calls csqlite_work. Returns 0 if that is impossible. Called on any thread.
  int (*start)(void *context, csqlite *connection);
  void *context;
} csqlite_host;

/// Makes a pool of at most `size` connections. `opening`: the encoded request with which each connection is opened; see
/// `opening` in codec.c. Returns NULL without memory.
csqlite_pool *csqlite_pool_make(int size, const char *opening, size_t length, csqlite_host host);
/// Closes all connections, and forgets the pool. The last thread frees it.
void csqlite_pool_leave(csqlite_pool *pool);
/// Closes the connections that nobody has taken; the others are closed when they are given back. `job` is done then.
void csqlite_pool_close(csqlite_pool *pool, csqlite_job *job, intptr_t task, int lane);
/// Ends all statements that run.
void csqlite_pool_interrupt(csqlite_pool *pool);

/// The work of a connection's thread.
void csqlite_work(csqlite *connection);

/// Notes a job, which csqlite_pool_hand_over then gives to a thread. `connection`: 0 for the next one that is free, or
/// the number of one that was taken. `until`: the time in ms at which it no longer waits for a connection.
/// `task`: what csqlite_job_task returns; 0 if nobody waits. `coroutine` is the task's.
void csqlite_pool_add(csqlite_pool *pool, csqlite_job *job, int64_t connection, intptr_t task, lua_State *coroutine,
                      int lane, int64_t until);
void csqlite_pool_hand_over(csqlite_pool *pool);
/// Returns the first of the jobs that are done since the last call.
csqlite_job *csqlite_pool_take(csqlite_pool *pool);
/// Declares that no task waits for a job any more. Returns 1 if the job had not begun, and frees it. Otherwise
/// `csqlite_pool_take` returns it later, as any job that is done.
int csqlite_pool_abandon(csqlite_pool *pool, csqlite_job *job);
/// If a job still runs, removes its connection from the pool, so that another connection can replace it.
void csqlite_pool_give_up(csqlite_pool *pool, uint64_t job);
/// Ends the jobs in the queue whose time limit has passed. Returns the time of the next call; 0 if no job waits.
int64_t csqlite_pool_expire(csqlite_pool *pool, int64_t now);

/// Gives a connection back: cursors are closed, and a transaction is rolled back.
void csqlite_pool_give(csqlite_pool *pool, int64_t connection);
/// Closes a connection that was taken, and ends its running statement.
void csqlite_pool_drop(csqlite_pool *pool, int64_t connection);

typedef struct {
  int connections, in_use, waiting, cancelled;
  /// Whether a thread works at a job for which a task waits.
  int is_busy;
} csqlite_numbers;
csqlite_numbers csqlite_pool_numbers(csqlite_pool *pool);
/// Returns the task of the job that runs for longest, and the seconds; 0 if there is none.
intptr_t csqlite_pool_longest(csqlite_pool *pool, double *seconds);
/// Writes the waiting tasks into `to`, first those whose statements run. Returns their number.
int csqlite_pool_tasks(csqlite_pool *pool, intptr_t *to, int most);
/// Returns the text of the statement that a coroutine waits for, its task and the length; NULL if there is none.
const char *csqlite_pool_text(csqlite_pool *pool, lua_State *coroutine, intptr_t *task, size_t *length);
/// Returns the coroutine at an index of a stack; NULL for another value.
lua_State *csqlite_coroutine(lua_State *L, int index);

csqlite_job *csqlite_job_next(csqlite_job *job);
/// The task that waits for the job; 0 if none does.
intptr_t csqlite_job_task(csqlite_job *job);
int csqlite_job_lane(csqlite_job *job);
/// The number of the connection that it has taken; 0 if none.
int64_t csqlite_job_taken(csqlite_job *job);
uint64_t csqlite_job_number(csqlite_job *job);
void csqlite_job_free(csqlite_job *job);
/// The number of the job's record in recordings; 0 if it has none.
uint64_t csqlite_job_record(const csqlite_job *job);
void csqlite_job_set_record(csqlite_job *job, uint64_t record);

typedef struct {
  /// Rows that the job has returned or changed, and the milliseconds for which it waited for a connection.
  uint64_t rows;
  int64_t waited;
  int has_failed;
} csqlite_outcome;
/// Returns the outcome of a job that is done.
csqlite_outcome csqlite_job_outcome(const csqlite_job *job);

/// Milliseconds of the monotonic clock.
int64_t csqlite_now(void);
/// Loads libsqlite3. Returns NULL, or the reason why it cannot be loaded.
const char *csqlite_load(void);
/// Lua gets a job as a light userdata. Each thread keeps a list of the jobs that it has lent to Lua, so that C refuses
/// stale values, which debug functions may find.
enum { LENT_REQUEST = 1, LENT_REPLY };
void csqlite_lend(lua_State *L, csqlite_job *job, int how);
void csqlite_take_back(csqlite_job *job);
/// Takes back the request that is lent to Lua at an index of the stack. Returns NULL for other values.
csqlite_job *csqlite_take_request(lua_State *L, int index);
/// Pushes a table with the functions that write jobs and read replies. A lua_CFunction.
int csqlite_open_codec(lua_State *L);
