// One table of all that is written in Lua. A new part is its file and three lines here.
#include "LuaModules.h"

#include <string.h>

static const char http_lua[] = {
#embed "runloop/http.lua"
};
static const char http_answer_lua[] = {
#embed "runloop/http/answer.lua"
};
static const char http_admission_lua[] = {
#embed "runloop/http/admission.lua"
};
static const char http_failures_lua[] = {
#embed "runloop/http/failures.lua"
};
static const char http_upload_lua[] = {
#embed "runloop/http/upload.lua"
};
static const char http_client_lua[] = {
#embed "runloop/http/client.lua"
};
static const char http_events_lua[] = {
#embed "runloop/http/events.lua"
};
static const char http_native_lua[] = {
#embed "runloop/http/native.lua"
};
static const char http_request_lua[] = {
#embed "runloop/http/request.lua"
};
static const char http_answering_lua[] = {
#embed "runloop/http/answering.lua"
};
static const char http_files_lua[] = {
#embed "runloop/http/files.lua"
};
static const char http_handshake_lua[] = {
#embed "runloop/http/handshake.lua"
};
static const char http_incoming_lua[] = {
#embed "runloop/http/incoming.lua"
};
static const char http_log_lua[] = {
#embed "runloop/http/log.lua"
};
static const char http_multipart_lua[] = {
#embed "runloop/http/multipart.lua"
};
static const char http_recording_lua[] = {
#embed "runloop/http/recording.lua"
};
static const char http_routes_lua[] = {
#embed "runloop/http/routes.lua"
};
static const char http_connection_lua[] = {
#embed "runloop/http/connection.lua"
};
static const char http_server_lua[] = {
#embed "runloop/http/server.lua"
};
static const char http_websocket_lua[] = {
#embed "runloop/http/websocket.lua"
};
static const char http_wire_lua[] = {
#embed "runloop/http/wire.lua"
};
static const char json_lua[] = {
#embed "runloop/json.lua"
};
static const char net_lua[] = {
#embed "runloop/net.lua"
};
static const char net_copy_lua[] = {
#embed "runloop/net/copy.lua"
};
static const char net_tls_lua[] = {
#embed "runloop/net/tls.lua"
};
static const char notifications_lua[] = {
#embed "runloop/notifications.lua"
};
static const char prelude_lua[] = {
#embed "runloop/prelude.lua"
};
static const char channels_lua[] = {
#embed "runloop/channels.lua"
};
static const char keywords_lua[] = {
#embed "runloop/keywords.lua"
};
static const char misuse_lua[] = {
#embed "runloop/misuse.lua"
};
static const char missing_lua[] = {
#embed "runloop/missing.lua"
};
static const char schedule_lua[] = {
#embed "runloop/schedule.lua"
};
static const char text_lua[] = {
#embed "runloop/text.lua"
};
static const char timing_lua[] = {
#embed "runloop/timing.lua"
};
static const char pool_lua[] = {
#embed "runloop/pool.lua"
};
static const char shutdown_lua[] = {
#embed "runloop/shutdown.lua"
};
static const char prompt_entries_lua[] = {
#embed "runloop/prompt/entries.lua"
};
static const char inspect_lua[] = {
#embed "runloop/inspect.lua"
};
static const char prompt_complete_lua[] = {
#embed "runloop/prompt/complete.lua"
};
static const char prompt_expressions_lua[] = {
#embed "runloop/prompt/expressions.lua"
};
static const char prompt_help_lua[] = {
#embed "runloop/prompt/help.lua"
};
static const char prompt_locals_lua[] = {
#embed "runloop/prompt/locals.lua"
};
static const char prompt_names_lua[] = {
#embed "runloop/prompt/names.lua"
};
static const char prompt_reference_lua[] = {
#embed "runloop/prompt/reference.lua"
};
static const char prompt_sources_lua[] = {
#embed "runloop/prompt/sources.lua"
};
static const char prompt_stdlib_lua[] = {
#embed "runloop/prompt/stdlib.lua"
};
static const char prompt_tokens_lua[] = {
#embed "runloop/prompt/tokens.lua"
};
// One after the other: the library, and its modules.
static const char reference_lua[] = {
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
};
static const char top_lua[] = {
#embed "runloop/top.lua"
};
static const char test_awaiting_lua[] = {
#embed "runloop/test/awaiting.lua"
};
static const char test_bytecode_lua[] = {
#embed "runloop/test/bytecode.lua"
};
static const char test_check_lua[] = {
#embed "runloop/test/check.lua"
};
static const char test_clock_lua[] = {
#embed "runloop/test/clock.lua"
};
static const char test_command_lua[] = {
#embed "runloop/test/command.lua"
};
static const char test_coverage_lua[] = {
#embed "runloop/test/coverage.lua"
};
static const char test_define_lua[] = {
#embed "runloop/test/define.lua"
};
static const char test_doubles_lua[] = {
#embed "runloop/test/doubles.lua"
};
static const char test_events_lua[] = {
#embed "runloop/test/events.lua"
};
static const char test_explain_lua[] = {
#embed "runloop/test/explain.lua"
};
static const char test_fixtures_lua[] = {
#embed "runloop/test/fixtures.lua"
};
static const char test_journal_lua[] = {
#embed "runloop/test/journal.lua"
};
static const char test_json_lua[] = {
#embed "runloop/test/json.lua"
};
static const char test_junit_lua[] = {
#embed "runloop/test/junit.lua"
};
static const char test_leaks_lua[] = {
#embed "runloop/test/leaks.lua"
};
static const char trace_lua[] = {
#embed "runloop/trace.lua"
};
static const char test_lua[] = {
#embed "runloop/test/init.lua"
};
static const char test_memory_lua[] = {
#embed "runloop/test/memory.lua"
};
static const char test_options_lua[] = {
#embed "runloop/test/options.lua"
};
static const char test_order_lua[] = {
#embed "runloop/test/order.lua"
};
static const char test_phase_lua[] = {
#embed "runloop/test/phase.lua"
};
static const char test_property_lua[] = {
#embed "runloop/test/property.lua"
};
static const char test_recordings_lua[] = {
#embed "runloop/test/recordings.lua"
};
static const char test_report_lua[] = {
#embed "runloop/test/report.lua"
};
static const char test_rlclock_lua[] = {
#embed "runloop/test/rlclock.lua"
};
static const char test_run_lua[] = {
#embed "runloop/test/run.lua"
};
static const char test_state_lua[] = {
#embed "runloop/test/state.lua"
};
static const char test_zone_lua[] = {
#embed "runloop/test/zone.lua"
};
static const char test_screen_lua[] = {
#embed "runloop/test/screen.lua"
};
static const char test_snapshot_lua[] = {
#embed "runloop/test/snapshot.lua"
};
static const char test_spawn_lua[] = {
#embed "runloop/test/spawn.lua"
};
static const char test_tap_lua[] = {
#embed "runloop/test/tap.lua"
};
static const char test_values_lua[] = {
#embed "runloop/test/values.lua"
};
static const char test_watch_lua[] = {
#embed "runloop/test/watch.lua"
};
static const char test_worker_lua[] = {
#embed "runloop/test/worker.lua"
};
static const char test_workers_lua[] = {
#embed "runloop/test/workers.lua"
};
static const char process_programs_lua[] = {
#embed "runloop/process/programs.lua"
};
static const char process_signals_lua[] = {
#embed "runloop/process/signals.lua"
};
static const char process_lua[] = {
#embed "runloop/process.lua"
};
static const char terminal_lua[] = {
#embed "runloop/terminal.lua"
};
static const char log_lua[] = {
#embed "runloop/log.lua"
};
static const char fs_tree_lua[] = {
#embed "runloop/fs/tree.lua"
};
static const char fs_changes_lua[] = {
#embed "runloop/fs/changes.lua"
};
static const char fs_instance_lua[] = {
#embed "runloop/fs/instance.lua"
};
static const char fs_watch_lua[] = {
#embed "runloop/fs/watch.lua"
};
static const char fs_lua[] = {
#embed "runloop/fs.lua"
};
static const char arguments_lua[] = {
#embed "runloop/arguments.lua"
};

#define MODULE(name, text) {name, text, sizeof text}
static const lua_module modules[] = {
    MODULE("runloop.arguments", arguments_lua),
    MODULE("runloop.terminal", terminal_lua),
    MODULE("runloop.log", log_lua),
    MODULE("runloop.fs", fs_lua),
    MODULE("runloop.fs.tree", fs_tree_lua),
    MODULE("runloop.fs.changes", fs_changes_lua),
    MODULE("runloop.fs.instance", fs_instance_lua),
    MODULE("runloop.fs.watch", fs_watch_lua),
    MODULE("runloop.process", process_lua),
    MODULE("runloop.process.programs", process_programs_lua),
    MODULE("runloop.process.signals", process_signals_lua),
    MODULE("runloop.http", http_lua), MODULE("runloop.http.answer", http_answer_lua),
    MODULE("runloop.http.admission", http_admission_lua), MODULE("runloop.http.failures", http_failures_lua),
    MODULE("runloop.http.client", http_client_lua), MODULE("runloop.http.upload", http_upload_lua),
    MODULE("runloop.http.events", http_events_lua),
    MODULE("runloop.http.native", http_native_lua), MODULE("runloop.http.request", http_request_lua),
    MODULE("runloop.http.answering", http_answering_lua), MODULE("runloop.http.files", http_files_lua),
    MODULE("runloop.http.handshake", http_handshake_lua), MODULE("runloop.http.incoming", http_incoming_lua),
    MODULE("runloop.http.log", http_log_lua), MODULE("runloop.http.multipart", http_multipart_lua),
    MODULE("runloop.http.recording", http_recording_lua), MODULE("runloop.http.routes", http_routes_lua),
    MODULE("runloop.http.connection", http_connection_lua), MODULE("runloop.http.server", http_server_lua),
    MODULE("runloop.http.websocket", http_websocket_lua), MODULE("runloop.http.wire", http_wire_lua),
    MODULE("runloop.json", json_lua),
    MODULE("runloop.channels", channels_lua),
    MODULE("runloop.net", net_lua),
    MODULE("runloop.net.copy", net_copy_lua),
    MODULE("runloop.net.tls", net_tls_lua),
    MODULE("runloop.notifications", notifications_lua),
    MODULE("runloop.keywords", keywords_lua),
    MODULE("runloop.misuse", misuse_lua),
    MODULE("runloop.missing", missing_lua),
    MODULE("runloop.pool", pool_lua),
    MODULE("runloop.schedule", schedule_lua),
    MODULE("runloop.text", text_lua),
    MODULE("runloop.timing", timing_lua),
    MODULE("runloop.prelude", prelude_lua),
    MODULE("runloop.prompt.entries", prompt_entries_lua),
    MODULE("runloop.inspect", inspect_lua),
    MODULE("runloop.prompt.complete", prompt_complete_lua),
    MODULE("runloop.prompt.expressions", prompt_expressions_lua),
    MODULE("runloop.prompt.help", prompt_help_lua),
    MODULE("runloop.prompt.locals", prompt_locals_lua),
    MODULE("runloop.prompt.names", prompt_names_lua),
    MODULE("runloop.prompt.reference", prompt_reference_lua),
    MODULE("runloop.prompt.sources", prompt_sources_lua),
    MODULE("runloop.prompt.stdlib", prompt_stdlib_lua),
    MODULE("runloop.prompt.tokens", prompt_tokens_lua),
    MODULE("runloop.reference", reference_lua),
    MODULE("runloop.shutdown", shutdown_lua),
    MODULE("runloop.trace", trace_lua),
    MODULE("runloop.top", top_lua),
    MODULE("runloop.test", test_lua), MODULE("runloop.test.awaiting", test_awaiting_lua),
    MODULE("runloop.test.bytecode", test_bytecode_lua), MODULE("runloop.test.check", test_check_lua),
    MODULE("runloop.test.clock", test_clock_lua), MODULE("runloop.test.command", test_command_lua),
    MODULE("runloop.test.coverage", test_coverage_lua), MODULE("runloop.test.define", test_define_lua),
    MODULE("runloop.test.doubles", test_doubles_lua), MODULE("runloop.test.events", test_events_lua),
    MODULE("runloop.test.explain", test_explain_lua), MODULE("runloop.test.fixtures", test_fixtures_lua),
    MODULE("runloop.test.journal", test_journal_lua), MODULE("runloop.test.json", test_json_lua),
    MODULE("runloop.test.junit", test_junit_lua), MODULE("runloop.test.leaks", test_leaks_lua),
    MODULE("runloop.test.memory", test_memory_lua), MODULE("runloop.test.options", test_options_lua),
    MODULE("runloop.test.order", test_order_lua), MODULE("runloop.test.phase", test_phase_lua),
    MODULE("runloop.test.property", test_property_lua), MODULE("runloop.test.recordings", test_recordings_lua),
    MODULE("runloop.test.report", test_report_lua), MODULE("runloop.test.rlclock", test_rlclock_lua),
    MODULE("runloop.test.run", test_run_lua), MODULE("runloop.test.screen", test_screen_lua),
    MODULE("runloop.test.snapshot", test_snapshot_lua), MODULE("runloop.test.spawn", test_spawn_lua),
    MODULE("runloop.test.state", test_state_lua), MODULE("runloop.test.tap", test_tap_lua),
    MODULE("runloop.test.values", test_values_lua), MODULE("runloop.test.watch", test_watch_lua),
    MODULE("runloop.test.worker", test_worker_lua), MODULE("runloop.test.workers", test_workers_lua),
    MODULE("runloop.test.zone", test_zone_lua),
};

const lua_module *lua_modules_find(const char *name) {
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
    if (strcmp(modules[i].name, name) == 0) return &modules[i];
  return NULL;
}
