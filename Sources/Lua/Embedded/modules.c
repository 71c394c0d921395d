// Written by `generate`, from `order`: everything that is written in Lua, under the names by which it is required.
#include "LuaModules.h"

#include <string.h>

static const struct {
  const char *name, *text;
} modules[] = {{"", (const char[]){'\0'
, '\0'}}, {"runloop.prelude", (const char[]){
#embed "../../Host/Lua/prelude.lua"
, '\0'}}, {"runloop.notifications", (const char[]){
#embed "../../Host/Lua/notifications.lua"
, '\0'}}, {"runloop.arguments", (const char[]){
#embed "../../Modules/arguments/Lua/arguments.lua"
, '\0'}}, {"runloop.backoff", (const char[]){
#embed "../../Host/Lua/backoff.lua"
, '\0'}}, {"runloop.bridges", (const char[]){
#embed "../../Modules/bridges/Lua/bridges.lua"
, '\0'}}, {"runloop.buffered_files", (const char[]){
#embed "../../Host/Lua/buffered_files.lua"
, '\0'}}, {"runloop.bundle", (const char[]){
#embed "../../Program/Lua/bundle.lua"
, '\0'}}, {"runloop.channels", (const char[]){
#embed "../../Host/Lua/channels.lua"
, '\0'}}, {"runloop.crypto", (const char[]){
#embed "../../Modules/crypto/Lua/crypto.lua"
, '\0'}}, {"runloop.cqueues", (const char[]){
#embed "../../Modules/cqueues/Lua/cqueues.lua"
, '\0'}}, {"runloop.data.places", (const char[]){
#embed "../../Modules/data/Lua/places.lua"
, '\0'}}, {"runloop.data.shape", (const char[]){
#embed "../../Modules/data/Lua/shape.lua"
, '\0'}}, {"runloop.data.subscriptions", (const char[]){
#embed "../../Modules/data/Lua/subscriptions.lua"
, '\0'}}, {"runloop.encoding", (const char[]){
#embed "../../Modules/encoding/Lua/encoding.lua"
, '\0'}}, {"runloop.errors", (const char[]){
#embed "../../Host/Lua/errors.lua"
, '\0'}}, {"runloop.fs", (const char[]){
#embed "../../Modules/fs/Lua/fs.lua"
, '\0'}}, {"runloop.fs.changes", (const char[]){
#embed "../../Modules/fs/Lua/changes.lua"
, '\0'}}, {"runloop.fs.difference", (const char[]){
#embed "../../Modules/fs/Lua/difference.lua"
, '\0'}}, {"runloop.fs.instance", (const char[]){
#embed "../../Modules/fs/Lua/instance.lua"
, '\0'}}, {"runloop.fs.links", (const char[]){
#embed "../../Modules/fs/Lua/links.lua"
, '\0'}}, {"runloop.fs.lock", (const char[]){
#embed "../../Modules/fs/Lua/lock.lua"
, '\0'}}, {"runloop.fs.scan", (const char[]){
#embed "../../Modules/fs/Lua/scan.lua"
, '\0'}}, {"runloop.fs.tree", (const char[]){
#embed "../../Modules/fs/Lua/tree.lua"
, '\0'}}, {"runloop.fs.watch", (const char[]){
#embed "../../Modules/fs/Lua/watch.lua"
, '\0'}}, {"runloop.glib", (const char[]){
#embed "../../Modules/glib/Lua/glib.lua"
, '\0'}}, {"runloop.hints", (const char[]){
#embed "../../Host/Lua/hints.lua"
, '\0'}}, {"runloop.http", (const char[]){
#embed "../../Modules/http/Lua/http.lua"
, '\0'}}, {"runloop.http.admission", (const char[]){
#embed "../../Modules/http/Lua/server/admission.lua"
, '\0'}}, {"runloop.http.client", (const char[]){
#embed "../../Modules/http/Lua/client/client.lua"
, '\0'}}, {"runloop.http.client.request", (const char[]){
#embed "../../Modules/http/Lua/client/request.lua"
, '\0'}}, {"runloop.http.client.response", (const char[]){
#embed "../../Modules/http/Lua/client/response.lua"
, '\0'}}, {"runloop.http.client.wire", (const char[]){
#embed "../../Modules/http/Lua/client/wire.lua"
, '\0'}}, {"runloop.http.compress", (const char[]){
#embed "../../Modules/http/Lua/server/compress.lua"
, '\0'}}, {"runloop.http.events", (const char[]){
#embed "../../Modules/http/Lua/events.lua"
, '\0'}}, {"runloop.http.failures", (const char[]){
#embed "../../Modules/http/Lua/failures.lua"
, '\0'}}, {"runloop.http.files", (const char[]){
#embed "../../Modules/http/Lua/server/files.lua"
, '\0'}}, {"runloop.http.handshake", (const char[]){
#embed "../../Modules/http/Lua/websocket/handshake.lua"
, '\0'}}, {"runloop.http.iri", (const char[]){
#embed "../../Modules/http/Lua/client/iri.lua"
, '\0'}}, {"runloop.http.log", (const char[]){
#embed "../../Modules/http/Lua/server/log.lua"
, '\0'}}, {"runloop.http.multipart", (const char[]){
#embed "../../Modules/http/Lua/multipart.lua"
, '\0'}}, {"runloop.http.native", (const char[]){
#embed "../../Modules/http/Lua/native.lua"
, '\0'}}, {"runloop.http.recording", (const char[]){
#embed "../../Modules/http/Lua/server/recording.lua"
, '\0'}}, {"runloop.http.redirect", (const char[]){
#embed "../../Modules/http/Lua/client/redirect.lua"
, '\0'}}, {"runloop.http.routes", (const char[]){
#embed "../../Modules/http/Lua/server/routes.lua"
, '\0'}}, {"runloop.http.server", (const char[]){
#embed "../../Modules/http/Lua/server/server.lua"
, '\0'}}, {"runloop.http.server.connection", (const char[]){
#embed "../../Modules/http/Lua/server/connection.lua"
, '\0'}}, {"runloop.http.server.request", (const char[]){
#embed "../../Modules/http/Lua/server/request.lua"
, '\0'}}, {"runloop.http.server.response", (const char[]){
#embed "../../Modules/http/Lua/server/response.lua"
, '\0'}}, {"runloop.http.upload", (const char[]){
#embed "../../Modules/http/Lua/client/upload.lua"
, '\0'}}, {"runloop.http.websocket", (const char[]){
#embed "../../Modules/http/Lua/websocket/websocket.lua"
, '\0'}}, {"runloop.inspect", (const char[]){
#embed "../../Host/Lua/inspect.lua"
, '\0'}}, {"runloop.json", (const char[]){
#embed "../../Modules/json/Lua/json.lua"
, '\0'}}, {"runloop.keywords", (const char[]){
#embed "../../Host/Lua/keywords.lua"
, '\0'}}, {"runloop.log", (const char[]){
#embed "../../Modules/log/Lua/log.lua"
, '\0'}}, {"runloop.luv", (const char[]){
#embed "../../Modules/luv/Lua/luv.lua"
, '\0'}}, {"runloop.meanings", (const char[]){
#embed "../../Host/Lua/meanings.lua"
, '\0'}}, {"runloop.metrics", (const char[]){
#embed "../../Modules/metrics/Lua/metrics.lua"
, '\0'}}, {"runloop.misuse", (const char[]){
#embed "../../Host/Lua/misuse.lua"
, '\0'}}, {"runloop.nats", (const char[]){
#embed "../../Modules/nats/Lua/nats.lua"
, '\0'}}, {"runloop.nats.api", (const char[]){
#embed "../../Modules/nats/Lua/api.lua"
, '\0'}}, {"runloop.nats.bucket", (const char[]){
#embed "../../Modules/nats/Lua/bucket.lua"
, '\0'}}, {"runloop.nats.bus", (const char[]){
#embed "../../Modules/nats/Lua/bus.lua"
, '\0'}}, {"runloop.nats.check", (const char[]){
#embed "../../Modules/nats/Lua/check.lua"
, '\0'}}, {"runloop.nats.consumer", (const char[]){
#embed "../../Modules/nats/Lua/consumer.lua"
, '\0'}}, {"runloop.nats.fake", (const char[]){
#embed "../../Modules/nats/Lua/fake.lua"
, '\0'}}, {"runloop.nats.fake_consumers", (const char[]){
#embed "../../Modules/nats/Lua/fake_consumers.lua"
, '\0'}}, {"runloop.nats.fake_streams", (const char[]){
#embed "../../Modules/nats/Lua/fake_streams.lua"
, '\0'}}, {"runloop.nats.lease", (const char[]){
#embed "../../Modules/nats/Lua/lease.lua"
, '\0'}}, {"runloop.nats.link", (const char[]){
#embed "../../Modules/nats/Lua/link.lua"
, '\0'}}, {"runloop.nats.pull", (const char[]){
#embed "../../Modules/nats/Lua/pull.lua"
, '\0'}}, {"runloop.nats.secrets", (const char[]){
#embed "../../Modules/nats/Lua/secrets.lua"
, '\0'}}, {"runloop.nats.stream", (const char[]){
#embed "../../Modules/nats/Lua/stream.lua"
, '\0'}}, {"runloop.nats.subscription", (const char[]){
#embed "../../Modules/nats/Lua/subscription.lua"
, '\0'}}, {"runloop.nats.watch", (const char[]){
#embed "../../Modules/nats/Lua/watch.lua"
, '\0'}}, {"runloop.net", (const char[]){
#embed "../../Modules/net/Lua/net.lua"
, '\0'}}, {"runloop.net.copy", (const char[]){
#embed "../../Modules/net/Lua/copy.lua"
, '\0'}}, {"runloop.net.patterns", (const char[]){
#embed "../../Modules/net/Lua/patterns.lua"
, '\0'}}, {"runloop.net.tls", (const char[]){
#embed "../../Modules/net/Lua/tls.lua"
, '\0'}}, {"runloop.new", (const char[]){
#embed "../../Program/Lua/new.lua"
, '\0'}}, {"runloop.new.templates", (const char[]){
#embed "../../Program/Lua/new/templates.lua"
, '\0'}}, {"runloop.objects", (const char[]){
#embed "../../Host/Lua/objects.lua"
, '\0'}}, {"runloop.pool", (const char[]){
#embed "../../Host/Lua/pool.lua"
, '\0'}}, {"runloop.pool_worker", (const char[]){
#embed "../../Host/Lua/pool_worker.lua"
, '\0'}}, {"runloop.postgres", (const char[]){
#embed "../../Modules/postgres/Lua/postgres.lua"
, '\0'}}, {"runloop.postgres.addresses", (const char[]){
#embed "../../Modules/postgres/Lua/addresses.lua"
, '\0'}}, {"runloop.postgres.channels", (const char[]){
#embed "../../Modules/postgres/Lua/channels.lua"
, '\0'}}, {"runloop.postgres.connections", (const char[]){
#embed "../../Modules/postgres/Lua/connections.lua"
, '\0'}}, {"runloop.postgres.copies", (const char[]){
#embed "../../Modules/postgres/Lua/copies.lua"
, '\0'}}, {"runloop.postgres.failures", (const char[]){
#embed "../../Modules/postgres/Lua/failures.lua"
, '\0'}}, {"runloop.postgres.fake", (const char[]){
#embed "../../Modules/postgres/Lua/fake.lua"
, '\0'}}, {"runloop.postgres.fake.messages", (const char[]){
#embed "../../Modules/postgres/Lua/fake/messages.lua"
, '\0'}}, {"runloop.postgres.fake.statements", (const char[]){
#embed "../../Modules/postgres/Lua/fake/statements.lua"
, '\0'}}, {"runloop.postgres.values", (const char[]){
#embed "../../Modules/postgres/Lua/values.lua"
, '\0'}}, {"runloop.process", (const char[]){
#embed "../../Modules/process/Lua/process.lua"
, '\0'}}, {"runloop.process.channels", (const char[]){
#embed "../../Modules/process/Lua/channels.lua"
, '\0'}}, {"runloop.process.programs", (const char[]){
#embed "../../Modules/process/Lua/programs.lua"
, '\0'}}, {"runloop.process.signals", (const char[]){
#embed "../../Modules/process/Lua/signals.lua"
, '\0'}}, {"runloop.prompt.complete", (const char[]){
#embed "../../Prompt/Lua/complete.lua"
, '\0'}}, {"runloop.prompt.entries", (const char[]){
#embed "../../Prompt/Lua/entries.lua"
, '\0'}}, {"runloop.prompt.expressions", (const char[]){
#embed "../../Prompt/Lua/expressions.lua"
, '\0'}}, {"runloop.prompt.help", (const char[]){
#embed "../../Prompt/Lua/help.lua"
, '\0'}}, {"runloop.prompt.locals", (const char[]){
#embed "../../Prompt/Lua/locals.lua"
, '\0'}}, {"runloop.prompt.names", (const char[]){
#embed "../../Prompt/Lua/names.lua"
, '\0'}}, {"runloop.prompt.reference", (const char[]){
#embed "../../Prompt/Lua/reference.lua"
, '\0'}}, {"runloop.prompt.sources", (const char[]){
#embed "../../Prompt/Lua/sources.lua"
, '\0'}}, {"runloop.prompt.stdlib", (const char[]){
#embed "../../Prompt/Lua/stdlib.lua"
, '\0'}}, {"runloop.prompt.tokens", (const char[]){
#embed "../../Prompt/Lua/tokens.lua"
, '\0'}}, {"runloop.redis", (const char[]){
#embed "../../Modules/redis/Lua/redis.lua"
, '\0'}}, {"runloop.redis.calls", (const char[]){
#embed "../../Modules/redis/Lua/calls.lua"
, '\0'}}, {"runloop.redis.fake", (const char[]){
#embed "../../Modules/redis/Lua/fake.lua"
, '\0'}}, {"runloop.redis.fake.clients", (const char[]){
#embed "../../Modules/redis/Lua/fake/clients.lua"
, '\0'}}, {"runloop.redis.fake.generic", (const char[]){
#embed "../../Modules/redis/Lua/fake/generic.lua"
, '\0'}}, {"runloop.redis.fake.hashes", (const char[]){
#embed "../../Modules/redis/Lua/fake/hashes.lua"
, '\0'}}, {"runloop.redis.fake.lists", (const char[]){
#embed "../../Modules/redis/Lua/fake/lists.lua"
, '\0'}}, {"runloop.redis.fake.replies", (const char[]){
#embed "../../Modules/redis/Lua/fake/replies.lua"
, '\0'}}, {"runloop.redis.fake.sorted", (const char[]){
#embed "../../Modules/redis/Lua/fake/sorted.lua"
, '\0'}}, {"runloop.redis.fake.spaces", (const char[]){
#embed "../../Modules/redis/Lua/fake/spaces.lua"
, '\0'}}, {"runloop.redis.fake.strings", (const char[]){
#embed "../../Modules/redis/Lua/fake/strings.lua"
, '\0'}}, {"runloop.redis.line", (const char[]){
#embed "../../Modules/redis/Lua/line.lua"
, '\0'}}, {"runloop.redis.subscriptions", (const char[]){
#embed "../../Modules/redis/Lua/subscriptions.lua"
, '\0'}}, {"runloop.redis.where", (const char[]){
#embed "../../Modules/redis/Lua/where.lua"
, '\0'}}, {"runloop.reference", (const char[]){
#embed "../../../docs/lua/runloop.lua"
,
#embed "../../../docs/lua/runloop-arguments.lua"
,
#embed "../../../docs/lua/runloop-cqueues.lua"
,
#embed "../../../docs/lua/runloop-crypto.lua"
,
#embed "../../../docs/lua/runloop-encoding.lua"
,
#embed "../../../docs/lua/runloop-fs.lua"
,
#embed "../../../docs/lua/runloop-glib.lua"
,
#embed "../../../docs/lua/runloop-http.lua"
,
#embed "../../../docs/lua/runloop-json.lua"
,
#embed "../../../docs/lua/runloop-log.lua"
,
#embed "../../../docs/lua/runloop-luv.lua"
,
#embed "../../../docs/lua/runloop-metrics.lua"
,
#embed "../../../docs/lua/runloop-nats.lua"
,
#embed "../../../docs/lua/runloop-net.lua"
,
#embed "../../../docs/lua/runloop-postgres.lua"
,
#embed "../../../docs/lua/runloop-process.lua"
,
#embed "../../../docs/lua/runloop-redis.lua"
,
#embed "../../../docs/lua/runloop-schedule.lua"
,
#embed "../../../docs/lua/runloop-socket.lua"
,
#embed "../../../docs/lua/runloop-sqlite.lua"
,
#embed "../../../docs/lua/runloop-terminal.lua"
,
#embed "../../../docs/lua/runloop-test.lua"
,
#embed "../../../docs/lua/runloop-trace.lua"
,
#embed "../../../docs/lua/runloop-url.lua"
,
#embed "../../../docs/lua/runloop-zlib.lua"
, '\0'}}, {"runloop.sandbox", (const char[]){
#embed "../../Host/Lua/sandbox.lua"
, '\0'}}, {"runloop.schedule", (const char[]){
#embed "../../Modules/schedule/Lua/schedule.lua"
, '\0'}}, {"runloop.shutdown", (const char[]){
#embed "../../Host/Lua/shutdown.lua"
, '\0'}}, {"runloop.socket", (const char[]){
#embed "../../Modules/socket/Lua/socket.lua"
, '\0'}}, {"runloop.socket.common", (const char[]){
#embed "../../Modules/socket/Lua/common.lua"
, '\0'}}, {"runloop.socket.datagram", (const char[]){
#embed "../../Modules/socket/Lua/datagram.lua"
, '\0'}}, {"runloop.socket.dns", (const char[]){
#embed "../../Modules/socket/Lua/dns.lua"
, '\0'}}, {"runloop.socket.filters", (const char[]){
#embed "../../Modules/socket/Lua/filters.lua"
, '\0'}}, {"runloop.socket.select", (const char[]){
#embed "../../Modules/socket/Lua/select.lua"
, '\0'}}, {"runloop.socket.ssl", (const char[]){
#embed "../../Modules/socket/Lua/ssl.lua"
, '\0'}}, {"runloop.socket.tcp", (const char[]){
#embed "../../Modules/socket/Lua/tcp.lua"
, '\0'}}, {"runloop.socket.unix", (const char[]){
#embed "../../Modules/socket/Lua/unix.lua"
, '\0'}}, {"runloop.sqlite", (const char[]){
#embed "../../Modules/sqlite/Lua/sqlite.lua"
, '\0'}}, {"runloop.sqlite.connections", (const char[]){
#embed "../../Modules/sqlite/Lua/connections.lua"
, '\0'}}, {"runloop.terminal", (const char[]){
#embed "../../Modules/terminal/Lua/terminal.lua"
, '\0'}}, {"runloop.test", (const char[]){
#embed "../../Modules/test/Lua/init.lua"
, '\0'}}, {"runloop.test.bytecode", (const char[]){
#embed "../../Modules/test/Lua/bytecode.lua"
, '\0'}}, {"runloop.test.check", (const char[]){
#embed "../../Modules/test/Lua/check.lua"
, '\0'}}, {"runloop.test.clock", (const char[]){
#embed "../../Modules/test/Lua/clock.lua"
, '\0'}}, {"runloop.test.command", (const char[]){
#embed "../../Modules/test/Lua/command.lua"
, '\0'}}, {"runloop.test.condition", (const char[]){
#embed "../../Modules/test/Lua/condition.lua"
, '\0'}}, {"runloop.test.coverage", (const char[]){
#embed "../../Modules/test/Lua/coverage.lua"
, '\0'}}, {"runloop.test.define", (const char[]){
#embed "../../Modules/test/Lua/define.lua"
, '\0'}}, {"runloop.test.doubles", (const char[]){
#embed "../../Modules/test/Lua/doubles.lua"
, '\0'}}, {"runloop.test.events", (const char[]){
#embed "../../Modules/test/Lua/events.lua"
, '\0'}}, {"runloop.test.explain", (const char[]){
#embed "../../Modules/test/Lua/explain.lua"
, '\0'}}, {"runloop.test.fixtures", (const char[]){
#embed "../../Modules/test/Lua/fixtures.lua"
, '\0'}}, {"runloop.test.journal", (const char[]){
#embed "../../Modules/test/Lua/journal.lua"
, '\0'}}, {"runloop.test.json", (const char[]){
#embed "../../Modules/test/Lua/json.lua"
, '\0'}}, {"runloop.test.junit", (const char[]){
#embed "../../Modules/test/Lua/junit.lua"
, '\0'}}, {"runloop.test.leaks", (const char[]){
#embed "../../Modules/test/Lua/leaks.lua"
, '\0'}}, {"runloop.test.memory", (const char[]){
#embed "../../Modules/test/Lua/memory.lua"
, '\0'}}, {"runloop.test.options", (const char[]){
#embed "../../Modules/test/Lua/options.lua"
, '\0'}}, {"runloop.test.order", (const char[]){
#embed "../../Modules/test/Lua/order.lua"
, '\0'}}, {"runloop.test.phase", (const char[]){
#embed "../../Modules/test/Lua/phase.lua"
, '\0'}}, {"runloop.test.program_output", (const char[]){
#embed "../../Modules/test/Lua/program_output.lua"
, '\0'}}, {"runloop.test.property", (const char[]){
#embed "../../Modules/test/Lua/property.lua"
, '\0'}}, {"runloop.test.recordings", (const char[]){
#embed "../../Modules/test/Lua/recordings.lua"
, '\0'}}, {"runloop.test.report", (const char[]){
#embed "../../Modules/test/Lua/report.lua"
, '\0'}}, {"runloop.test.rlclock", (const char[]){
#embed "../../Modules/test/Lua/rlclock.lua"
, '\0'}}, {"runloop.test.run", (const char[]){
#embed "../../Modules/test/Lua/run.lua"
, '\0'}}, {"runloop.test.screen", (const char[]){
#embed "../../Modules/test/Lua/screen.lua"
, '\0'}}, {"runloop.test.server", (const char[]){
#embed "../../Modules/test/Lua/server.lua"
, '\0'}}, {"runloop.test.snapshot", (const char[]){
#embed "../../Modules/test/Lua/snapshot.lua"
, '\0'}}, {"runloop.test.spawn", (const char[]){
#embed "../../Modules/test/Lua/spawn.lua"
, '\0'}}, {"runloop.test.state", (const char[]){
#embed "../../Modules/test/Lua/state.lua"
, '\0'}}, {"runloop.test.tap", (const char[]){
#embed "../../Modules/test/Lua/tap.lua"
, '\0'}}, {"runloop.test.values", (const char[]){
#embed "../../Modules/test/Lua/values.lua"
, '\0'}}, {"runloop.test.watch", (const char[]){
#embed "../../Modules/test/Lua/watch.lua"
, '\0'}}, {"runloop.test.worker", (const char[]){
#embed "../../Modules/test/Lua/worker.lua"
, '\0'}}, {"runloop.test.workers", (const char[]){
#embed "../../Modules/test/Lua/workers.lua"
, '\0'}}, {"runloop.test.zone", (const char[]){
#embed "../../Modules/test/Lua/zone.lua"
, '\0'}}, {"runloop.text", (const char[]){
#embed "../../Host/Lua/text.lua"
, '\0'}}, {"runloop.timing", (const char[]){
#embed "../../Host/Lua/timing.lua"
, '\0'}}, {"runloop.top", (const char[]){
#embed "../../Program/Lua/top.lua"
, '\0'}}, {"runloop.trace", (const char[]){
#embed "../../Modules/trace/Lua/trace.lua"
, '\0'}}, {"runloop.url", (const char[]){
#embed "../../Modules/url/Lua/url.lua"
, '\0'}}, {"runloop.waiting_modes", (const char[]){
#embed "../../Host/Lua/waiting_modes.lua"
, '\0'}}, {"runloop.watch", (const char[]){
#embed "../../Program/Lua/watch.lua"
, '\0'}}, {"runloop.watched", (const char[]){
#embed "../../Program/Lua/watched.lua"
, '\0'}}, {"runloop.zlib", (const char[]){
#embed "../../Modules/zlib/Lua/zlib.lua"
, '\0'}}, {"runloop.zlib.native", (const char[]){
#embed "../../Modules/zlib/Lua/native.lua"
, '\0'}}};

const char *lua_modules_find(const char *name) {
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
    if (strcmp(modules[i].name, name) == 0) return modules[i].text;
  return NULL;
}

const char *lua_modules_name(size_t index) {
  return index < sizeof modules / sizeof *modules ? modules[index].name : NULL;
}
