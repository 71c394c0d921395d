// The Lua-written parts of the test runner.
#include <string.h>

#include "CLuaSupport.h"

static const char library[] = {
#embed "lua/test_library.lua"
};
static const char values[] = {
#embed "lua/test_values.lua"
};
static const char spawn[] = {
#embed "lua/test_spawn.lua"
};
static const char clock_[] = {
#embed "lua/test_clock.lua"
};
static const char explain_[] = {
#embed "lua/test_explain.lua"
};
static const char options_[] = {
#embed "lua/test_options.lua"
};
static const char watch_[] = {
#embed "lua/test_watch.lua"
};
static const char journal_[] = {
#embed "lua/test_journal.lua"
};
static const char rlclock_[] = {
#embed "lua/test_rlclock.lua"
};
static const char leaks_[] = {
#embed "lua/test_leaks.lua"
};
static const char order_[] = {
#embed "lua/test_order.lua"
};
static const char worker[] = {
#embed "lua/test_worker.lua"
};
static const char command[] = {
#embed "lua/test_command.lua"
};
static const char report[] = {
#embed "lua/test_report.lua"
};
static const char coverage[] = {
#embed "lua/test_coverage.lua"
};

static const struct {
  const char *name, *text;
  size_t length;
} scripts[] = {
    {"runloop.test", library, sizeof library},
    {"runloop.test.values", values, sizeof values},
    {"runloop.test.spawn", spawn, sizeof spawn},
    {"runloop.test.clock", clock_, sizeof clock_},
    {"runloop.test.explain", explain_, sizeof explain_},
    {"runloop.test.options", options_, sizeof options_},
    {"runloop.test.watch", watch_, sizeof watch_},
    {"runloop.test.journal", journal_, sizeof journal_},
    {"runloop.test.rlclock", rlclock_, sizeof rlclock_},
    {"runloop.test.leaks", leaks_, sizeof leaks_},
    {"runloop.test.order", order_, sizeof order_},
    {"runloop.test.worker", worker, sizeof worker},
    {"runloop.test.command", command, sizeof command},
    {"runloop.test.report", report, sizeof report},
    {"runloop.test.coverage", coverage, sizeof coverage},
};

const char *cl_test_script(const char *name, size_t *length) {
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
    if (strcmp(scripts[i].name, name) != 0) continue;
    *length = scripts[i].length;
    return scripts[i].text;
  }
  return NULL;
}
