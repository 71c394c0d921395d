import Foundation
import TestSupport
import Testing

/// Counts the allocator's calls for one event. On its way through engine, binding and Lua, an event must not allocate;
/// a call that makes an object allocates that object only.
///
/// The suite counts in the release build, since without optimization the compiler keeps values in memory that it
/// otherwise keeps in registers.
@Suite("Allocations", .timed, .enabled(if: Release.isCurrent, "scripts/test builds the release first"))
struct AllocationCountTests {
    @Test(
        "events allocate no more than their objects",
        arguments: [
            ("timer", 0), ("signal", 0), ("observer", 0), ("descriptor", 0), ("switch", 0), ("move", 0), ("request", 1),
            ("after", 1),
        ]) func eventsAllocateNoMoreThanTheirObjects(kind: String, each: Int) throws
    {
        let few = try Self.allocations(kind, times: 1000)
        let many = try Self.allocations(kind, times: 5000)
        // Tables grow rarely as the number of objects grows.
        #expect((many - few + 200) / 4000 == each, "\(many - few) allocations for 4000 events of \(kind)")
    }

    @Test("the counter counts allocations") func theCounterCounts() throws {
        let none = try Self.run(["-e", ""])
        let some = try Self.run(["-e", "for i = 1, 1000 do local t = {} end"])
        #expect(some - none >= 1000)
    }

    private static func allocations(_ kind: String, times: Int) throws -> Int {
        try run([Binary.repository + "/Tests/Host/Scripts/" + "allocations.lua", kind, "\(times)"])
    }

    private static func run(_ arguments: [String]) throws -> Int {
        let counter = try Self.counter.get()
        let report = FileManager.default.temporaryDirectory.appendingPathComponent("rlhost-count-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: report) }
        let result = try Binary.run(
            arguments, environment: ["LD_PRELOAD": counter, "COUNT_TO": report.path, "RLHOST_MALLOC": "1"],
            program: Release.path)
        try #require(result.status == 0, "\(result)")
        return try #require(Int(try String(contentsOf: report, encoding: .utf8)))
    }

    /// The compiled counter.
    private static let counter = Result {
        let source = Binary.repository + "/Tests/Host/Scripts/allocation-counter.c"
        let target = FileManager.default.temporaryDirectory.appendingPathComponent("rlhost-counter-\(getpid()).so").path
        let compiled = try Binary.run(
            ["clang", "-O1", "-w", "-shared", "-fPIC", "-o", target, source], program: "/usr/bin/env", name: "env")
        guard compiled.status == 0 else { throw Binary.Failure(description: "clang: \(compiled.errors)") }
        return target
    }
}
