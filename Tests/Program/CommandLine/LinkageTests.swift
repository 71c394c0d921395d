import Foundation
import TestSupport
import Testing

/// The release program contains Lua and Swift, needs no file beside itself, and exports Lua's functions to C modules.
@Suite("Linkage", .timed, .enabled(if: Release.isCurrent, "scripts/test builds the release first"))
struct LinkageTests {
    @Test("the program needs the C library only, and searches no directory of its own")
    func needed() throws {
        let run = try Binary.shell("readelf -d \(Release.path)")
        let libraries = run.output.split(separator: "\n").filter { $0.contains("(NEEDED)") }.compactMap {
            $0.split(separator: "[").last?.split(separator: ".").first.map(String.init)
        }
        #expect(Set(libraries).isSubset(of: ["libm", "libc", "ld-linux-x86-64", "ld-linux-aarch64"]), "\(libraries)")
        #expect(!run.output.contains("RUNPATH") && !run.output.contains("RPATH"))
    }

    @Test("the program exports every public function of Lua")
    func exports() throws {
        let run = try Binary.shell(
            """
            names() { nm -D --defined-only "$1" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | grep ^lua | sort; }
            library=$(names $(pkg-config --variable=libdir lua5.4)/liblua5.4.so)
            [ "$library" = "$(names \(Release.path))" ] && echo "$library" | wc -l
            """)
        #expect(run.output == "153\n", "\(run)")
    }

    @Test("a library beside the program is not loaded")
    func planted() throws {
        try Binary.withDirectory { directory in
            let source = "__attribute__((constructor)) static void f(void) { __builtin_printf(\"planted\"); }"
            let run = try Binary.shell(
                """
                echo '\(source)' | clang -w -shared -fPIC -x c - -o liblua5.4.so.0 && cp liblua5.4.so.0 libm.so.6 &&
                cp \(Release.path) rlhost && ./rlhost -e 'print(math.pi // 1)'
                """, directory: directory)
            #expect(run.output == "3.0\n", "\(run)")
        }
    }

    @Test("a module that is linked with Lua's shared library uses the Lua of the program")
    func linkedModule() throws {
        try Binary.withDirectory { directory in
            let source = """
                #include <lua.h>
                int luaopen_linked(lua_State *L) {
                  lua_createtable(L, 0, 1);
                  lua_pushliteral(L, "from C");
                  lua_setfield(L, -2, "text");
                  return 1;
                }
                """
            try source.write(toFile: directory + "/linked.c", atomically: true, encoding: .utf8)
            let script =
                "package.cpath = './?.so' local t = require 'linked' t[1] = {} collectgarbage() "
                + "print(t.text, #t)"
            let run = try Binary.shell(
                """
                clang -shared -fPIC $(pkg-config --cflags lua5.4) linked.c -o linked.so -llua5.4 &&
                readelf -d linked.so | grep -c 'NEEDED.*liblua5.4.so.0' && \(Release.path) -e "\(script)"
                """, directory: directory)
            #expect(run.output == "1\nfrom C\t1\n", "\(run)")
        }
    }

    @Test("the texts of modules are packed, and the prompt's help unpacks them")
    func texts() throws {
        let run = try Binary.shell("grep -acF 'local function' \(Release.path)")
        #expect((Int(run.output.dropLast()) ?? .max) < 100, "\(run)")
        let help = try Binary.shell(
            #"printf 'rl = require "runloop"\nrl.timer?\n' | \#(Release.path) -i"#)
        #expect(help.output.contains("\nMakes a timer. It keeps its grid"), "\(help)")
    }

    @Test("the functions of a start are next to each other, in the order that scripts/order has found")
    func order() throws {
        let run = try Binary.shell("python3 scripts/order --check", directory: Binary.repository)
        #expect(run.status == 0, "\(run)")
    }

    @Test("unused functions of Swift's library are left out")
    func loosened() throws {
        let run = try Binary.shell("nm \(Release.path) | grep -c _swift_stdlib_names")
        #expect(run.output == "0\n", "\(run)")
        let size = try Binary.withDirectory { directory in
            try Binary.shell("strip -o rlhost \(Release.path) && wc -c <rlhost", directory: directory).output
        }
        #expect((Int(size.dropLast()) ?? .max) <= 10_000_000, "\(size)")
    }

    @Test("the end calls all finalizers and closes files, although it frees no objects")
    func finalizers() throws {
        try Binary.withDirectory { directory in
            let script = """
                for i = 1, 3 do _G[i] = setmetatable({}, { __gc = function() print(i) end }) end
                file = io.open("file", "w") file:write "written"
                """
            let run = try Binary.run(["-e", script], directory: directory, program: Release.path)
            #expect(run.status == 0 && run.output == "3\n2\n1\n", "\(run)")
            #expect(try String(contentsOfFile: directory + "/file", encoding: .utf8) == "written")
        }
    }

    @Test("the modules written in Lua are in the program as bytecode")
    func bytecode() throws {
        let run = try Binary.shell(#"LC_ALL=C grep -aoF "$(printf '\033Lua')" \#(Release.path) | wc -l"#)
        #expect((Int(run.output.dropLast()) ?? 0) > 60, "\(run)")
        let error = try Binary.run(["-e", "require 'runloop'.timer(1)"], program: Release.path)
        #expect(error.errors.hasPrefix("rlhost: (command line):1: rl.timer"), "\(error)")
    }
}
