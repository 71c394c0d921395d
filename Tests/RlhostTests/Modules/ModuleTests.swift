import TestSupport
import Testing

/// The modules that are tested in Lua, with the test runner.
@Suite struct ModuleTests {
    @Test(
        "the tests of the module pass",
        arguments: [
            "json_test.lua", "fs_test.lua", "fs_watch_test.lua", "fs_moves_test.lua", "process_test.lua",
            "process_signals_test.lua",
            "arguments_test.lua", "terminal_test.lua", "top_test.lua",
            "schedule_test.lua", "schedule_clock_test.lua", "process_races_test.lua", "faults_test.lua",
            "net_inherited_test.lua",
            "annotations_test.lua", "net_test.lua", "error_places_test.lua", "net_edges_test.lua",
            "net_server_test.lua", "net_tls_test.lua", "net_sni_test.lua",
            "net_copy_test.lua",
            "net_peers_test.lua", "net_crowd_test.lua", "http_client_test.lua", "http_files_test.lua",
            "http_hostile_test.lua", "http_lengths_test.lua", "http_turns_test.lua", "http_sequences_test.lua",
            "http_reference_test.lua", "http_iri_test.lua", "http_limits_test.lua", "http_server_test.lua",
            "http_websocket_test.lua",
            "http_websocket_cases_test.lua", "http_websocket_limits_test.lua",
            "http_end_test.lua", "http_modes_test.lua", "http_upload_test.lua", "http_manners_test.lua",
            "http_failures_test.lua", "http_redirect_test.lua", "http_open_test.lua", "http_body_test.lua",
            "http_encoding_test.lua",
            "waiting_test.lua",
        ]) func theTestsOfThe(_ name: String) throws
    {
        let run = try Binary.run(
            ["test", "\(Binary.repository)/Tests/Lua/\(name)"],
            environment: ["DOCUMENTS": "\(Binary.repository)/docs/lua"])
        #expect(run.status == 0, "\(run.output)\(run.errors)")
    }

    @Test(
        "wrong arguments are named, at the script's own line, whatever function gets them",
        arguments: [1, 2, Int.random(in: 3..<1_000_000)]) func wrongArgumentsAreNamed(_ seed: Int) throws
    {
        let run = try Binary.run(["\(Binary.repository)/Tests/Lua/everything-wrong.lua", String(seed)])
        #expect(run.status == 0, "seed \(seed): \(run.output)\(run.errors)")
    }
}
