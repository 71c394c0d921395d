// swift-tools-version: 6.2
import PackageDescription

let swift: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]
let c: [CSetting] = [.treatAllWarnings(as: .error)]

let package = Package(
    name: "rlhost",
    products: [
        .library(name: "RunLoops", targets: ["RunLoops", "Linux"]),
        .library(name: "Streams", targets: ["Streams"]),
        .executable(name: "rlhost", targets: ["rlhost"]),
    ],
    targets: [
        // The operating system: what has to be C, and Swift's face of it.
        .target(name: "CLinux", cSettings: c),
        .target(name: "Linux", dependencies: ["CLinux"], swiftSettings: swift),
        // The engine: run loops for Swift, without Lua.
        .target(name: "RunLoops", dependencies: ["Linux", "CLinux"], swiftSettings: swift),
        // Streams of bytes on run loops, for Swift.
        .target(name: "CStreams", dependencies: ["CLinux"], cSettings: c),
        .target(name: "Streams", dependencies: ["RunLoops", "Linux", "CStreams"], swiftSettings: swift),
        // Lua for Swift: the library, what has to be C to be safe, and a Swift face.
        .systemLibrary(name: "CLua", pkgConfig: "lua5.4", providers: [.apt(["liblua5.4-dev", "pkg-config"])]),
        // All that is written in Lua, by the names under which it is required.
        .target(name: "LuaModules", exclude: ["runloop", "compiler"], cSettings: c),
        .target(name: "CLuaSupport", dependencies: ["CLua", "LuaModules"], cSettings: c),
        .target(name: "Lua", dependencies: ["CLua", "CLuaSupport"], swiftSettings: swift),
        // The codec of runloop.json; HTTP as a protocol, over the distribution's parser; and that for Lua, with libcurl.
        .target(name: "CJSON", dependencies: ["CLua"], cSettings: c),
        .target(name: "HTTP", dependencies: ["CLinux"], cSettings: c + [.headerSearchPath("llhttp")]),
        .target(name: "CLuaHTTP", dependencies: ["CLua", "HTTP", "CLinux"], cSettings: c),
        // Run loops as Lua sees them, and the program.
        .target(
            name: "LuaRunLoops", dependencies: ["RunLoops", "Lua", "Linux"], swiftSettings: swift),
        // The modules beside runloop: runloop.net.
        .target(
            name: "LuaStreams", dependencies: ["LuaRunLoops", "Lua", "Streams", "RunLoops", "Linux"],
            swiftSettings: swift),
        // The test runner's part in a test's process: virtual time, and what it has to know of the system.
        .target(
            name: "LuaTesting", dependencies: ["LuaTracing", "LuaRunLoops", "RunLoops", "Lua", "Linux"],
            swiftSettings: swift),
        // What a prompt has in the process whose Lua it shows: its part in Lua, and who attaches from another process.
        .target(
            name: "LuaPrompt", dependencies: ["Tracing", "LuaRunLoops", "RunLoops", "Lua", "Linux"],
            swiftSettings: swift),
        // Programs, signals, files and terminals, as scripts see them.
        .target(
            name: "LuaSystem", dependencies: ["LuaRunLoops", "RunLoops", "Lua", "Linux", "LineEditor"],
            swiftSettings: swift),
        // runloop.json and runloop.http.
        .target(name: "LuaHTTP", dependencies: ["LuaRunLoops", "Lua", "CJSON", "CLuaHTTP"], swiftSettings: swift),
        // What records them, for scripts and for the command line.
        .target(
            name: "LuaTracing", dependencies: ["LuaRunLoops", "Lua", "RunLoops", "Tracing", "Linux"],
            swiftSettings: swift),
        // Recordings of what loops did: files, and the page that shows them.
        .target(name: "CTracing", exclude: ["page"], cSettings: c),
        .target(name: "Tracing", dependencies: ["RunLoops", "Linux", "HTTP", "CTracing"], swiftSettings: swift),
        .target(name: "LineEditor", dependencies: ["Linux"], swiftSettings: swift),
        // What the program does before Swift's runtime begins.
        .target(name: "CProgram", dependencies: ["CLinux"], cSettings: c),
        .executableTarget(
            name: "rlhost",
            dependencies: [
                "Tracing", "LuaTracing", "LuaPrompt", "LuaTesting", "LuaSystem", "LuaHTTP", "LuaStreams", "LuaRunLoops",
                "Lua",
                "RunLoops",
                "LineEditor", "Linux", "CProgram",
            ],
            swiftSettings: swift),
        // What several test targets need: the built program, a terminal's screen, numbers that can be had again.
        .target(name: "TestSupport", dependencies: ["LineEditor"], path: "Tests/Support", swiftSettings: swift),
        .testTarget(
            name: "StreamsTests", dependencies: ["Streams", "CStreams", "RunLoops", "Linux", "TestSupport"],
            swiftSettings: swift),
        .testTarget(
            name: "TracingTests", dependencies: ["Tracing", "RunLoops", "Linux", "TestSupport"],
            exclude: ["Reader", "Page"],
            swiftSettings: swift),
        .testTarget(name: "LinuxTests", dependencies: ["Linux", "CLinux", "TestSupport"], swiftSettings: swift),
        .testTarget(name: "RunLoopsTests", dependencies: ["RunLoops", "Linux", "TestSupport"], swiftSettings: swift),
        // Of scripts, in the test's own process or in the built program's.
        .testTarget(
            name: "LuaTests", dependencies: ["Lua", "CLuaSupport", "TestSupport"], swiftSettings: swift),
        .testTarget(
            name: "LuaRunLoopsTests",
            dependencies: ["LuaTesting", "LuaRunLoops", "Lua", "RunLoops", "CLuaSupport", "TestSupport"],
            swiftSettings: swift),
        .testTarget(name: "RlhostTests", dependencies: ["LineEditor", "TestSupport"], swiftSettings: swift),
        // A process of its own that appends to a history file until it is killed.
        .executableTarget(
            name: "HistoryWriter", dependencies: ["LineEditor"], path: "Tests/HistoryWriter", swiftSettings: swift),
        .testTarget(
            name: "LineEditorTests", dependencies: ["LineEditor", "Linux", "HistoryWriter", "TestSupport"],
            swiftSettings: swift),
        // The rules of the house: scripts/tidy has them.
        .testTarget(name: "TidyTests", dependencies: ["TestSupport"], swiftSettings: swift),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .gnu2x
)
