// Statements that begin and end transactions; and snapshots, through which queries of tasks that wait at the same time
// see one state of the database.
#include "private.h"

int csqlite_step_once(csqlite *it, sqlite3_stmt **statement, const char *text) {
  int code = SQLITE_OK;
  if (!*statement) code = sqlite.prepare_v3(it->db, text, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
  if (!*statement) return code;
  code = sqlite.step(*statement);
  sqlite.reset(*statement);
  return code;
}

void csqlite_begin_snapshot(csqlite *it) {
  if (csqlite_step_once(it, &it->begin, "begin") == SQLITE_DONE) it->snapshot = it->last_handed;
}

void csqlite_end_snapshot(csqlite *it) {
  it->snapshot = 0;
  // A failure may already have ended the transaction.
  if (!sqlite.get_autocommit(it->db)) csqlite_step_once(it, &it->end, "rollback");
}
