// All that is written in Lua, under the names by which it is required: what each script needs first, then by name. A new part is its
// file and two lines here.
#include "LuaModules.h"

#include <string.h>

// Ends the text before it, and begins the row of a module, whose text follows.
#define MODULE(name) , '\0'}}, {name, (const char[]){

static const struct {
  const char *name, *text;
} modules[] = {{"", (const char[]){'\0'
MODULE("runloop.prelude")
#embed "runloop/prelude.lua"
MODULE("runloop.notifications")
#embed "runloop/notifications.lua"
MODULE("runloop.ahead")
#embed "runloop/ahead.lua"
MODULE("runloop.arguments")
#embed "runloop/arguments.lua"
MODULE("runloop.channels")
#embed "runloop/channels.lua"
MODULE("runloop.fs")
#embed "runloop/fs.lua"
MODULE("runloop.fs.changes")
#embed "runloop/fs/changes.lua"
MODULE("runloop.fs.difference")
#embed "runloop/fs/difference.lua"
MODULE("runloop.fs.instance")
#embed "runloop/fs/instance.lua"
MODULE("runloop.fs.links")
#embed "runloop/fs/links.lua"
MODULE("runloop.fs.looking")
#embed "runloop/fs/looking.lua"
MODULE("runloop.fs.tree")
#embed "runloop/fs/tree.lua"
MODULE("runloop.fs.watch")
#embed "runloop/fs/watch.lua"
MODULE("runloop.hearing")
#embed "runloop/hearing.lua"
MODULE("runloop.http")
#embed "runloop/http.lua"
MODULE("runloop.http.admission")
#embed "runloop/http/admission.lua"
MODULE("runloop.http.answer")
#embed "runloop/http/answer.lua"
MODULE("runloop.http.answering")
#embed "runloop/http/answering.lua"
MODULE("runloop.http.client")
#embed "runloop/http/client.lua"
MODULE("runloop.http.connection")
#embed "runloop/http/connection.lua"
MODULE("runloop.http.events")
#embed "runloop/http/events.lua"
MODULE("runloop.http.failures")
#embed "runloop/http/failures.lua"
MODULE("runloop.http.files")
#embed "runloop/http/files.lua"
MODULE("runloop.http.handshake")
#embed "runloop/http/handshake.lua"
MODULE("runloop.http.incoming")
#embed "runloop/http/incoming.lua"
MODULE("runloop.http.iri")
#embed "runloop/http/iri.lua"
MODULE("runloop.http.log")
#embed "runloop/http/log.lua"
MODULE("runloop.http.multipart")
#embed "runloop/http/multipart.lua"
MODULE("runloop.http.native")
#embed "runloop/http/native.lua"
MODULE("runloop.http.recording")
#embed "runloop/http/recording.lua"
MODULE("runloop.http.redirect")
#embed "runloop/http/redirect.lua"
MODULE("runloop.http.request")
#embed "runloop/http/request.lua"
MODULE("runloop.http.routes")
#embed "runloop/http/routes.lua"
MODULE("runloop.http.server")
#embed "runloop/http/server.lua"
MODULE("runloop.http.upload")
#embed "runloop/http/upload.lua"
MODULE("runloop.http.websocket")
#embed "runloop/http/websocket.lua"
MODULE("runloop.http.wire")
#embed "runloop/http/wire.lua"
MODULE("runloop.inspect")
#embed "runloop/inspect.lua"
MODULE("runloop.json")
#embed "runloop/json.lua"
MODULE("runloop.keywords")
#embed "runloop/keywords.lua"
MODULE("runloop.log")
#embed "runloop/log.lua"
MODULE("runloop.missing")
#embed "runloop/missing.lua"
MODULE("runloop.misuse")
#embed "runloop/misuse.lua"
MODULE("runloop.net")
#embed "runloop/net.lua"
MODULE("runloop.net.copy")
#embed "runloop/net/copy.lua"
MODULE("runloop.net.tls")
#embed "runloop/net/tls.lua"
MODULE("runloop.pool")
#embed "runloop/pool.lua"
MODULE("runloop.process")
#embed "runloop/process.lua"
MODULE("runloop.process.channels")
#embed "runloop/process/channels.lua"
MODULE("runloop.process.programs")
#embed "runloop/process/programs.lua"
MODULE("runloop.process.signals")
#embed "runloop/process/signals.lua"
MODULE("runloop.prompt.complete")
#embed "runloop/prompt/complete.lua"
MODULE("runloop.prompt.entries")
#embed "runloop/prompt/entries.lua"
MODULE("runloop.prompt.expressions")
#embed "runloop/prompt/expressions.lua"
MODULE("runloop.prompt.help")
#embed "runloop/prompt/help.lua"
MODULE("runloop.prompt.locals")
#embed "runloop/prompt/locals.lua"
MODULE("runloop.prompt.names")
#embed "runloop/prompt/names.lua"
MODULE("runloop.prompt.reference")
#embed "runloop/prompt/reference.lua"
MODULE("runloop.prompt.sources")
#embed "runloop/prompt/sources.lua"
MODULE("runloop.prompt.stdlib")
#embed "runloop/prompt/stdlib.lua"
MODULE("runloop.prompt.tokens")
#embed "runloop/prompt/tokens.lua"
// One after the other: the library, and its modules.
MODULE("runloop.reference")
#embed "../../docs/lua/runloop.lua"
,
#embed "../../docs/lua/runloop-arguments.lua"
,
#embed "../../docs/lua/runloop-fs.lua"
,
#embed "../../docs/lua/runloop-http.lua"
,
#embed "../../docs/lua/runloop-json.lua"
,
#embed "../../docs/lua/runloop-log.lua"
,
#embed "../../docs/lua/runloop-net.lua"
,
#embed "../../docs/lua/runloop-process.lua"
,
#embed "../../docs/lua/runloop-schedule.lua"
,
#embed "../../docs/lua/runloop-terminal.lua"
,
#embed "../../docs/lua/runloop-test.lua"
MODULE("runloop.schedule")
#embed "runloop/schedule.lua"
MODULE("runloop.shutdown")
#embed "runloop/shutdown.lua"
MODULE("runloop.terminal")
#embed "runloop/terminal.lua"
MODULE("runloop.test")
#embed "runloop/test/init.lua"
MODULE("runloop.test.awaiting")
#embed "runloop/test/awaiting.lua"
MODULE("runloop.test.bytecode")
#embed "runloop/test/bytecode.lua"
MODULE("runloop.test.check")
#embed "runloop/test/check.lua"
MODULE("runloop.test.clock")
#embed "runloop/test/clock.lua"
MODULE("runloop.test.command")
#embed "runloop/test/command.lua"
MODULE("runloop.test.condition")
#embed "runloop/test/condition.lua"
MODULE("runloop.test.coverage")
#embed "runloop/test/coverage.lua"
MODULE("runloop.test.define")
#embed "runloop/test/define.lua"
MODULE("runloop.test.doubles")
#embed "runloop/test/doubles.lua"
MODULE("runloop.test.events")
#embed "runloop/test/events.lua"
MODULE("runloop.test.explain")
#embed "runloop/test/explain.lua"
MODULE("runloop.test.fixtures")
#embed "runloop/test/fixtures.lua"
MODULE("runloop.test.journal")
#embed "runloop/test/journal.lua"
MODULE("runloop.test.json")
#embed "runloop/test/json.lua"
MODULE("runloop.test.junit")
#embed "runloop/test/junit.lua"
MODULE("runloop.test.leaks")
#embed "runloop/test/leaks.lua"
MODULE("runloop.test.memory")
#embed "runloop/test/memory.lua"
MODULE("runloop.test.options")
#embed "runloop/test/options.lua"
MODULE("runloop.test.order")
#embed "runloop/test/order.lua"
MODULE("runloop.test.phase")
#embed "runloop/test/phase.lua"
MODULE("runloop.test.property")
#embed "runloop/test/property.lua"
MODULE("runloop.test.recordings")
#embed "runloop/test/recordings.lua"
MODULE("runloop.test.report")
#embed "runloop/test/report.lua"
MODULE("runloop.test.rlclock")
#embed "runloop/test/rlclock.lua"
MODULE("runloop.test.run")
#embed "runloop/test/run.lua"
MODULE("runloop.test.screen")
#embed "runloop/test/screen.lua"
MODULE("runloop.test.snapshot")
#embed "runloop/test/snapshot.lua"
MODULE("runloop.test.spawn")
#embed "runloop/test/spawn.lua"
MODULE("runloop.test.state")
#embed "runloop/test/state.lua"
MODULE("runloop.test.tap")
#embed "runloop/test/tap.lua"
MODULE("runloop.test.values")
#embed "runloop/test/values.lua"
MODULE("runloop.test.watch")
#embed "runloop/test/watch.lua"
MODULE("runloop.test.worker")
#embed "runloop/test/worker.lua"
MODULE("runloop.test.workers")
#embed "runloop/test/workers.lua"
MODULE("runloop.test.zone")
#embed "runloop/test/zone.lua"
MODULE("runloop.text")
#embed "runloop/text.lua"
MODULE("runloop.timing")
#embed "runloop/timing.lua"
MODULE("runloop.top")
#embed "runloop/top.lua"
MODULE("runloop.trace")
#embed "runloop/trace.lua"
, '\0'}}};

const char *lua_modules_find(const char *name) {
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
    if (strcmp(modules[i].name, name) == 0) return modules[i].text;
  return NULL;
}

const char *lua_modules_name(size_t index) {
  return index < sizeof modules / sizeof *modules ? modules[index].name : NULL;
}
