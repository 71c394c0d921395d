// swift-tools-version: 6.2
import Foundation
import PackageDescription

let swift: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]
let c: [CSetting] = [.treatAllWarnings(as: .error)]

/// Returns the files below the folders of `root`, or below all of it, that no compiler reads: tests in Lua are beside
/// those in Swift. The package manager caches the result until this file changes, and `swift build` then warns of newer
/// files; `scripts/test` turns that cache off.
func others(in root: String, _ folders: String...) -> [String] {
    let top = Context.packageDirectory + "/" + root
    return (folders.isEmpty ? [""] : folders.map { $0 + "/" }).flatMap { folder in
        (FileManager.default.enumerator(atPath: top + "/" + folder)?.compactMap { $0 as? String } ?? [])
            .filter { !($0 as NSString).pathExtension.isEmpty && !$0.hasSuffix(".swift") }.map { folder + $0 }
    }.sorted()
}

let package = Package(
    name: "rlhost",
    products: [
        .library(name: "RunLoops", targets: ["RunLoops", "Linux"]),
        .library(name: "Streams", targets: ["Streams"]),
        .executable(name: "rlhost", targets: ["rlhost"]),
    ],
    targets: [
        // The operating system: the parts that must be C, and a Swift interface to it.
        .target(name: "CLinux", path: "Sources/Engine/System/C", cSettings: c),
        .target(name: "Linux", dependencies: ["CLinux"], path: "Sources/Engine/System/Swift", swiftSettings: swift),
        // The engine: run loops for Swift, without Lua.
        .target(
            name: "RunLoops", dependencies: ["Linux", "CLinux"], path: "Sources/Engine/RunLoops", swiftSettings: swift),
        // Streams of bytes on run loops, for Swift.
        .target(name: "CStreams", dependencies: ["CLinux"], path: "Sources/Modules/net/C", cSettings: c),
        .target(
            name: "Streams", dependencies: ["RunLoops", "Linux", "CStreams"], path: "Sources/Modules/net/Streams",
            swiftSettings: swift),
        // Lua for Swift: the library, the parts that must be C to be safe, and a Swift interface.
        .systemLibrary(
            name: "CLua", path: "Sources/Lua/Headers", pkgConfig: "lua5.4",
            providers: [.apt(["liblua5.4-dev", "pkg-config"])]),
        // All code in Lua, under the names with which it is required.
        .target(
            name: "LuaModules", path: "Sources/Lua/Embedded", exclude: ["compiler", "generate", "order"], cSettings: c),
        .target(name: "CLuaSupport", dependencies: ["CLua", "LuaModules"], path: "Sources/Lua/C", cSettings: c),
        .target(name: "Lua", dependencies: ["CLua", "CLuaSupport"], path: "Sources/Lua/Swift", swiftSettings: swift),
        // The codec of runloop.json; the HTTP protocol, over the distribution's parser; and HTTP for Lua, with libcurl.
        .target(name: "CJSON", dependencies: ["CLua"], path: "Sources/Modules/json/C", cSettings: c),
        .target(
            name: "HTTP", path: "Sources/Modules/http/Protocol",
            cSettings: c + [.headerSearchPath("llhttp")]),
        .target(
            name: "CLuaHTTP", dependencies: ["CLua", "HTTP", "CStreams", "CLinux", "CLuaCodecs"],
            path: "Sources/Modules/http/C", cSettings: c),
        // Bytes as text, digests, URLs and compression.
        .target(
            name: "CLuaCodecs", dependencies: ["CLua", "HTTP", "CStreams", "CLinux"], path: "Sources/Modules",
            exclude: [
                "net", "http", "json", "trace", "test", "schedule", "arguments", "process", "fs", "terminal", "log",
                "crypto/Lua", "crypto/Swift", "encoding/Lua", "url/Lua", "zlib/Lua", "sqlite", "data", "redis/Lua",
                "socket/Lua", "luv/Lua", "glib/Lua", "bridges/Lua", "bridges/Swift", "cqueues", "nats/Lua",
                "nats/Swift", "metrics/Lua", "metrics/Swift",
            ],
            sources: [
                "encoding/C", "crypto/C", "url/C", "zlib/C", "redis/C", "nats/C", "socket/C", "luv/C",
                "glib/C", "bridges/C", "metrics/C",
            ],
            publicHeadersPath: "encoding/C/include", cSettings: c),
        // Run loops as Lua sees them, and the program.
        .target(
            name: "LuaRunLoops", dependencies: ["RunLoops", "Lua", "Linux", "CJSON", "CLuaHTTP"],
            path: "Sources/Host/Swift",
            swiftSettings: swift),
        // SQLite for Lua: requests, replies, and the threads that handle them.
        .target(name: "CSQLite", dependencies: ["CLua"], path: "Sources/Modules/sqlite/C", cSettings: c),
        // PostgreSQL for Lua, over libpq: connections, and values.
        .target(
            name: "CPostgres", dependencies: ["CLua", "CJSON"], path: "Sources/Modules/postgres/C", cSettings: c),
        // The modules beside runloop: runloop.net.
        .target(
            name: "LuaStreams", dependencies: ["LuaRunLoops", "Lua", "Streams", "RunLoops", "Linux", "CStreams"],
            path: "Sources/Modules/net/Binding",
            swiftSettings: swift),
        // The part of the test runner in the process of a test: virtual time, and its knowledge of the system.
        .target(
            name: "LuaTesting", dependencies: ["LuaTracing", "LuaRunLoops", "RunLoops", "Lua", "Linux"],
            path: "Sources/Modules/test/Binding",
            swiftSettings: swift),
        // The part of a prompt in the process whose Lua it shows: its Lua code, and the server for clients of other
        // processes.
        .target(
            name: "LuaPrompt", dependencies: ["Tracing", "LuaRunLoops", "RunLoops", "Lua", "Linux"], path: "Sources",
            exclude: ["Engine", "Lua", "Host", "Modules", "Program", "Prompt/Editor", "Prompt/Lua", "Attach/Client"],
            sources: ["Prompt/Binding", "Attach/Server"],
            swiftSettings: swift),
        // Programs, signals, files and terminals, as scripts see them.
        .target(
            name: "LuaSystem",
            dependencies: [
                "LuaRunLoops", "RunLoops", "Lua", "Linux", "LineEditor", "CLuaCodecs", "CSQLite", "CPostgres",
            ],
            path: "Sources/Modules",
            exclude: [
                "net", "http", "json", "trace", "test", "schedule", "arguments", "process/Lua", "fs/Lua",
                "terminal/Lua", "log/Lua", "encoding", "url", "zlib", "crypto/C", "crypto/Lua",
                "sqlite/Lua", "sqlite/C", "postgres/Lua", "postgres/C", "data", "redis", "socket", "luv", "glib",
                "cqueues", "nats/Lua", "nats/C", "bridges/C", "bridges/Lua", "metrics/C", "metrics/Lua",
            ],
            sources: [
                "process/Swift", "fs/Swift", "terminal/Swift", "log/Swift", "crypto/Swift", "sqlite/Swift",
                "metrics/Swift", "postgres/Swift", "nats/Swift", "bridges/Swift",
            ],
            swiftSettings: swift),
        // Recording itself, for scripts and for the command line.
        .target(
            name: "LuaTracing", dependencies: ["LuaRunLoops", "Lua", "RunLoops", "Tracing", "Linux"],
            path: "Sources/Modules/trace/Binding",
            swiftSettings: swift),
        // Recordings of what loops did: files, and the page that shows them.
        .target(name: "CTracing", path: "Sources/Modules/trace/Page", exclude: ["page"], cSettings: c),
        .target(
            name: "Tracing", dependencies: ["RunLoops", "Linux", "CLinux", "CTracing"],
            path: "Sources/Modules/trace/Recording", swiftSettings: swift),
        .target(name: "LineEditor", dependencies: ["Linux"], path: "Sources/Prompt/Editor", swiftSettings: swift),
        // What the program does before Swift's runtime begins.
        .target(
            name: "CProgram", dependencies: ["CLinux"], path: "Sources/Program/C", exclude: ["shell"], cSettings: c),
        .executableTarget(
            name: "rlhost",
            dependencies: [
                "Tracing", "LuaTracing", "LuaPrompt", "LuaTesting", "LuaSystem", "LuaStreams", "LuaRunLoops",
                "Lua",
                "RunLoops",
                "LineEditor", "Linux", "CProgram",
            ], path: "Sources",
            exclude: [
                "Engine", "Lua", "Host", "Modules", "Prompt", "Attach/Server", "Program/C", "Program/Lua",
                "Program/order",
            ],
            sources: ["Program/Swift", "Attach/Client"],
            swiftSettings: swift),
        // Helpers of several test targets: the built program, a terminal's screen, reproducible random numbers.
        .target(
            name: "TestSupport", dependencies: ["LineEditor"], path: "Tests/Support",
            exclude: others(in: "Tests/Support"), swiftSettings: swift),
        .testTarget(
            name: "StreamsTests", dependencies: ["Streams", "CStreams", "RunLoops", "Linux", "TestSupport"],
            path: "Tests/Modules/net/Streams",
            swiftSettings: swift),
        .testTarget(
            name: "TracingTests", dependencies: ["Tracing", "RunLoops", "Linux", "TestSupport"],
            path: "Tests/Modules/trace/Recording", exclude: ["Reader", "Page"],
            swiftSettings: swift),
        .testTarget(
            name: "LinuxTests", dependencies: ["Linux", "CLinux", "TestSupport"], path: "Tests/Engine/System",
            swiftSettings: swift),
        .testTarget(
            name: "RunLoopsTests", dependencies: ["RunLoops", "Linux", "TestSupport"], path: "Tests/Engine/RunLoops",
            swiftSettings: swift),
        // These tests run scripts, in their own process or in the built program.
        .testTarget(
            name: "LuaTests", dependencies: ["Lua", "CLuaSupport", "TestSupport"], path: "Tests/Lua",
            exclude: ["Corpus"], swiftSettings: swift),
        .testTarget(
            name: "LuaRunLoopsTests",
            dependencies: ["LuaTesting", "LuaRunLoops", "Lua", "RunLoops", "CLuaSupport", "TestSupport"],
            path: "Tests/Host", exclude: ["Scripts"] + others(in: "Tests/Host"),
            swiftSettings: swift),
        .testTarget(
            name: "RlhostTests", dependencies: ["LineEditor", "TestSupport"], path: "Tests",
            exclude: [
                "Engine", "Lua", "Host", "Tidy", "Support", "Corpus", "Prompt/Editor", "Prompt/HistoryWriter",
                "Modules/net/Streams", "Modules/trace/Recording",
            ] + others(in: "Tests", "Modules", "Program"), sources: ["Modules", "Prompt", "Attach", "Program"],
            swiftSettings: swift),
        // A separate process that appends to a history file until it is killed.
        .executableTarget(
            name: "HistoryWriter", dependencies: ["LineEditor"], path: "Tests/Prompt/HistoryWriter",
            swiftSettings: swift),
        .testTarget(
            name: "LineEditorTests", dependencies: ["LineEditor", "Linux", "HistoryWriter", "TestSupport"],
            path: "Tests/Prompt/Editor",
            swiftSettings: swift),
        // The style rules that scripts/tidy checks.
        .testTarget(name: "TidyTests", dependencies: ["TestSupport"], path: "Tests/Tidy", swiftSettings: swift),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .gnu2x
)
