// All that is written in Lua, under the names by which it is required: what each script needs first, then by name. A new part is its
// file and two lines here: the first ends the text before it and begins a row.
#include "LuaModules.h"

#include <string.h>

static const struct {
  const char *name, *text;
} modules[] = {{"", (const char[]){'\0'
, '\0'}}, {"runloop.prelude", (const char[]){
#embed "runloop/prelude.lua"
, '\0'}}, {"runloop.notifications", (const char[]){
#embed "runloop/notifications.lua"
, '\0'}}, {"runloop.ahead", (const char[]){
#embed "runloop/ahead.lua"
, '\0'}}, {"runloop.arguments", (const char[]){
#embed "runloop/arguments.lua"
, '\0'}}, {"runloop.channels", (const char[]){
#embed "runloop/channels.lua"
, '\0'}}, {"runloop.fs", (const char[]){
#embed "runloop/fs.lua"
, '\0'}}, {"runloop.fs.changes", (const char[]){
#embed "runloop/fs/changes.lua"
, '\0'}}, {"runloop.fs.difference", (const char[]){
#embed "runloop/fs/difference.lua"
, '\0'}}, {"runloop.fs.instance", (const char[]){
#embed "runloop/fs/instance.lua"
, '\0'}}, {"runloop.fs.links", (const char[]){
#embed "runloop/fs/links.lua"
, '\0'}}, {"runloop.fs.looking", (const char[]){
#embed "runloop/fs/looking.lua"
, '\0'}}, {"runloop.fs.tree", (const char[]){
#embed "runloop/fs/tree.lua"
, '\0'}}, {"runloop.fs.watch", (const char[]){
#embed "runloop/fs/watch.lua"
, '\0'}}, {"runloop.hearing", (const char[]){
#embed "runloop/hearing.lua"
, '\0'}}, {"runloop.http", (const char[]){
#embed "runloop/http.lua"
, '\0'}}, {"runloop.http.admission", (const char[]){
#embed "runloop/http/admission.lua"
, '\0'}}, {"runloop.http.answer", (const char[]){
#embed "runloop/http/answer.lua"
, '\0'}}, {"runloop.http.answering", (const char[]){
#embed "runloop/http/answering.lua"
, '\0'}}, {"runloop.http.client", (const char[]){
#embed "runloop/http/client.lua"
, '\0'}}, {"runloop.http.connection", (const char[]){
#embed "runloop/http/connection.lua"
, '\0'}}, {"runloop.http.events", (const char[]){
#embed "runloop/http/events.lua"
, '\0'}}, {"runloop.http.failures", (const char[]){
#embed "runloop/http/failures.lua"
, '\0'}}, {"runloop.http.files", (const char[]){
#embed "runloop/http/files.lua"
, '\0'}}, {"runloop.http.handshake", (const char[]){
#embed "runloop/http/handshake.lua"
, '\0'}}, {"runloop.http.incoming", (const char[]){
#embed "runloop/http/incoming.lua"
, '\0'}}, {"runloop.http.iri", (const char[]){
#embed "runloop/http/iri.lua"
, '\0'}}, {"runloop.http.log", (const char[]){
#embed "runloop/http/log.lua"
, '\0'}}, {"runloop.http.multipart", (const char[]){
#embed "runloop/http/multipart.lua"
, '\0'}}, {"runloop.http.native", (const char[]){
#embed "runloop/http/native.lua"
, '\0'}}, {"runloop.http.recording", (const char[]){
#embed "runloop/http/recording.lua"
, '\0'}}, {"runloop.http.redirect", (const char[]){
#embed "runloop/http/redirect.lua"
, '\0'}}, {"runloop.http.request", (const char[]){
#embed "runloop/http/request.lua"
, '\0'}}, {"runloop.http.routes", (const char[]){
#embed "runloop/http/routes.lua"
, '\0'}}, {"runloop.http.server", (const char[]){
#embed "runloop/http/server.lua"
, '\0'}}, {"runloop.http.upload", (const char[]){
#embed "runloop/http/upload.lua"
, '\0'}}, {"runloop.http.websocket", (const char[]){
#embed "runloop/http/websocket.lua"
, '\0'}}, {"runloop.http.wire", (const char[]){
#embed "runloop/http/wire.lua"
, '\0'}}, {"runloop.inspect", (const char[]){
#embed "runloop/inspect.lua"
, '\0'}}, {"runloop.json", (const char[]){
#embed "runloop/json.lua"
, '\0'}}, {"runloop.keywords", (const char[]){
#embed "runloop/keywords.lua"
, '\0'}}, {"runloop.log", (const char[]){
#embed "runloop/log.lua"
, '\0'}}, {"runloop.missing", (const char[]){
#embed "runloop/missing.lua"
, '\0'}}, {"runloop.misuse", (const char[]){
#embed "runloop/misuse.lua"
, '\0'}}, {"runloop.net", (const char[]){
#embed "runloop/net.lua"
, '\0'}}, {"runloop.net.copy", (const char[]){
#embed "runloop/net/copy.lua"
, '\0'}}, {"runloop.net.tls", (const char[]){
#embed "runloop/net/tls.lua"
, '\0'}}, {"runloop.pool", (const char[]){
#embed "runloop/pool.lua"
, '\0'}}, {"runloop.process", (const char[]){
#embed "runloop/process.lua"
, '\0'}}, {"runloop.process.channels", (const char[]){
#embed "runloop/process/channels.lua"
, '\0'}}, {"runloop.process.programs", (const char[]){
#embed "runloop/process/programs.lua"
, '\0'}}, {"runloop.process.signals", (const char[]){
#embed "runloop/process/signals.lua"
, '\0'}}, {"runloop.prompt.complete", (const char[]){
#embed "runloop/prompt/complete.lua"
, '\0'}}, {"runloop.prompt.entries", (const char[]){
#embed "runloop/prompt/entries.lua"
, '\0'}}, {"runloop.prompt.expressions", (const char[]){
#embed "runloop/prompt/expressions.lua"
, '\0'}}, {"runloop.prompt.help", (const char[]){
#embed "runloop/prompt/help.lua"
, '\0'}}, {"runloop.prompt.locals", (const char[]){
#embed "runloop/prompt/locals.lua"
, '\0'}}, {"runloop.prompt.names", (const char[]){
#embed "runloop/prompt/names.lua"
, '\0'}}, {"runloop.prompt.reference", (const char[]){
#embed "runloop/prompt/reference.lua"
, '\0'}}, {"runloop.prompt.sources", (const char[]){
#embed "runloop/prompt/sources.lua"
, '\0'}}, {"runloop.prompt.stdlib", (const char[]){
#embed "runloop/prompt/stdlib.lua"
, '\0'}}, {"runloop.prompt.tokens", (const char[]){
#embed "runloop/prompt/tokens.lua"
// One after the other: the library, and its modules.
, '\0'}}, {"runloop.reference", (const char[]){
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
, '\0'}}, {"runloop.schedule", (const char[]){
#embed "runloop/schedule.lua"
, '\0'}}, {"runloop.shutdown", (const char[]){
#embed "runloop/shutdown.lua"
, '\0'}}, {"runloop.terminal", (const char[]){
#embed "runloop/terminal.lua"
, '\0'}}, {"runloop.test", (const char[]){
#embed "runloop/test/init.lua"
, '\0'}}, {"runloop.test.awaiting", (const char[]){
#embed "runloop/test/awaiting.lua"
, '\0'}}, {"runloop.test.bytecode", (const char[]){
#embed "runloop/test/bytecode.lua"
, '\0'}}, {"runloop.test.check", (const char[]){
#embed "runloop/test/check.lua"
, '\0'}}, {"runloop.test.clock", (const char[]){
#embed "runloop/test/clock.lua"
, '\0'}}, {"runloop.test.command", (const char[]){
#embed "runloop/test/command.lua"
, '\0'}}, {"runloop.test.condition", (const char[]){
#embed "runloop/test/condition.lua"
, '\0'}}, {"runloop.test.coverage", (const char[]){
#embed "runloop/test/coverage.lua"
, '\0'}}, {"runloop.test.define", (const char[]){
#embed "runloop/test/define.lua"
, '\0'}}, {"runloop.test.doubles", (const char[]){
#embed "runloop/test/doubles.lua"
, '\0'}}, {"runloop.test.events", (const char[]){
#embed "runloop/test/events.lua"
, '\0'}}, {"runloop.test.explain", (const char[]){
#embed "runloop/test/explain.lua"
, '\0'}}, {"runloop.test.fixtures", (const char[]){
#embed "runloop/test/fixtures.lua"
, '\0'}}, {"runloop.test.journal", (const char[]){
#embed "runloop/test/journal.lua"
, '\0'}}, {"runloop.test.json", (const char[]){
#embed "runloop/test/json.lua"
, '\0'}}, {"runloop.test.junit", (const char[]){
#embed "runloop/test/junit.lua"
, '\0'}}, {"runloop.test.leaks", (const char[]){
#embed "runloop/test/leaks.lua"
, '\0'}}, {"runloop.test.memory", (const char[]){
#embed "runloop/test/memory.lua"
, '\0'}}, {"runloop.test.options", (const char[]){
#embed "runloop/test/options.lua"
, '\0'}}, {"runloop.test.order", (const char[]){
#embed "runloop/test/order.lua"
, '\0'}}, {"runloop.test.phase", (const char[]){
#embed "runloop/test/phase.lua"
, '\0'}}, {"runloop.test.property", (const char[]){
#embed "runloop/test/property.lua"
, '\0'}}, {"runloop.test.recordings", (const char[]){
#embed "runloop/test/recordings.lua"
, '\0'}}, {"runloop.test.report", (const char[]){
#embed "runloop/test/report.lua"
, '\0'}}, {"runloop.test.rlclock", (const char[]){
#embed "runloop/test/rlclock.lua"
, '\0'}}, {"runloop.test.run", (const char[]){
#embed "runloop/test/run.lua"
, '\0'}}, {"runloop.test.screen", (const char[]){
#embed "runloop/test/screen.lua"
, '\0'}}, {"runloop.test.snapshot", (const char[]){
#embed "runloop/test/snapshot.lua"
, '\0'}}, {"runloop.test.spawn", (const char[]){
#embed "runloop/test/spawn.lua"
, '\0'}}, {"runloop.test.state", (const char[]){
#embed "runloop/test/state.lua"
, '\0'}}, {"runloop.test.tap", (const char[]){
#embed "runloop/test/tap.lua"
, '\0'}}, {"runloop.test.values", (const char[]){
#embed "runloop/test/values.lua"
, '\0'}}, {"runloop.test.watch", (const char[]){
#embed "runloop/test/watch.lua"
, '\0'}}, {"runloop.test.worker", (const char[]){
#embed "runloop/test/worker.lua"
, '\0'}}, {"runloop.test.workers", (const char[]){
#embed "runloop/test/workers.lua"
, '\0'}}, {"runloop.test.zone", (const char[]){
#embed "runloop/test/zone.lua"
, '\0'}}, {"runloop.text", (const char[]){
#embed "runloop/text.lua"
, '\0'}}, {"runloop.timing", (const char[]){
#embed "runloop/timing.lua"
, '\0'}}, {"runloop.top", (const char[]){
#embed "runloop/top.lua"
, '\0'}}, {"runloop.trace", (const char[]){
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
