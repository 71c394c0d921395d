import Foundation
import TestSupport
import Testing

@Suite("Examples", .timed)
struct ExampleTests {
    private static func path(_ name: String) -> String { "\(Binary.repository)/docs/examples/\(name)" }

    @Test("every example is run by a test")
    func allAreRun() throws {
        let tests = Binary.repository + "/Tests/"
        let texts = try FileManager.default.subpathsOfDirectory(atPath: tests)
            .filter { $0.hasSuffix("ExampleTests.swift") || $0.hasSuffix("examples_test.lua") }
            .map { try String(contentsOfFile: tests + $0, encoding: .utf8) }
        let folder = Binary.repository + "/docs/examples"
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) where name.hasSuffix(".lua") {
            #expect(texts.contains { $0.contains(name) }, "no test names \(name): it may be broken")
        }
    }

    @Test("the expect script has a dialogue on a terminal")
    func expect() throws {
        let run = try Binary.run([Self.path("expect.lua")])
        #expect(run.status == 0 && run.output == "the system: Linux\n", "\(run.output)\(run.errors)")
    }

    @Test("the clock prints how late each tick is, and no tick is early")
    func clock() throws {
        let run = try Binary.run([Self.path("clock.lua"), "5", "0.03"])
        #expect(run.status == 0, "\(run.errors)")
        let lateness = run.output.matches(of: /tick (\d+)  \d\d:\d\d:\d\d  (-?[\d.]+) ms late\n/)
            .compactMap { Double($0.2) }
        #expect(!lateness.isEmpty && lateness.allSatisfy { $0 >= 0 }, "\(run.output)")
        #expect(run.output.contains(/tick \d+ .*\nworst: [\d.]+ ms\n$/), "\(run.output)")
    }

    /// Runs a shell script in a separate directory. In it, `await TEXT FILE` waits until a text is in a file,
    /// and `end PROCESS` asks a process to end when it sleeps: while Lua runs, a signal is an error in Lua.
    private static func shell(_ script: String, environment: [String: String] = [:]) throws -> Binary.Result {
        let definition = """
            await() {
              for i in $(seq 300); do grep -q -- "$1" "$2" 2>/dev/null && return; sleep 0.03; done
              echo "this never came: $1"; cat "$2"
            }
            end() {
              until grep -q ') S ' /proc/$1/stat; do sleep 0.01; done
              kill $1; wait $1; echo "status $?"
            }

            """
        return try Binary.withDirectory {
            try Binary.shell(definition + script, environment: environment, directory: $0)
        }
    }

    @Test("tail shows what is appended to a file, and notices when it is cut")
    func tailOfFile() throws {
        let run = try Self.shell(
            """
            echo one > log
            $RLHOST \(Self.path("tail.lua")) log > out & tail=$!
            await one out
            for word in two three; do echo $word >> log; await $word out; done
            echo new > log; await new out
            end $tail
            cat out
            """)
        #expect(run.output == "status 143\none\ntwo\nthree\ntail: log was cut; from its start:\nnew\n", "\(run.errors)")
    }

    @Test("tail follows a fifo from one writer to the next, and does not spin in between")
    func tailOfFifo() throws {
        let run = try Self.shell(
            """
            mkfifo pipe
            $RLHOST \(Self.path("tail.lua")) pipe > out & tail=$!
            for word in one two three; do echo $word > pipe; await $word out; done
            # Fields 14 and 15: the hundredths of a second of processor time that it has used.
            before=$(cut -d' ' -f14,15 /proc/$tail/stat); sleep 0.5; after=$(cut -d' ' -f14,15 /proc/$tail/stat)
            echo $((${after% *} + ${after#* } - ${before% *} - ${before#* } < 5))
            end $tail
            cat out
            """)
        #expect(run.output == "1\nstatus 143\none\ntwo\nthree\n", "\(run.errors)")
    }

    @Test("people in the chat room get each other's lines, in whatever pieces they arrive")
    func chat() throws {
        let client = """
            local socket = require "socket"
            local function enter()
              local connection = assert(socket.connect("127.0.0.1", tonumber(arg[1])))
              connection:settimeout(10)
              return connection
            end
            local function hear(who, connection, n)
              for _ = 1, n do print(who, (assert(connection:receive "*l"))) end
            end
            local ada, bob = enter(), enter()
            hear("ada", ada, 1)
            hear("bob", bob, 1)
            ada:send "Ada\\n"
            hear("ada", ada, 1)
            bob:send "Bo"
            bob:send "b\\r\\nhello"
            hear("bob", bob, 1)
            bob:send "\\n/quit\\n"
            hear("ada", ada, 3)
            print("bob", select(2, bob:receive "*l"))
            ada:send(("x"):rep(100000))      -- nobody wants to hear that, nor keep it
            ada:close()
            local late = enter()
            late:send "Eve\\n"
            hear("eve", late, 1)
            print("eve", (late:receive "*l"):match "welcome, Eve")
            """
        let run = try Self.shell(
            """
            $RLHOST \(Self.path("chat.lua")) > out & server=$!
            await listening out
            printf %s "$CLIENT" | lua5.4 - $(grep -o '[0-9]*$' out)
            end $server
            """, environment: ["CLIENT": client])
        #expect(
            run.output == """
                ada\tyour name?
                bob\tyour name?
                ada\t* welcome, Ada; 1 here
                bob\t* welcome, Bob; 2 here
                ada\t* Bob has come
                ada\tBob: hello
                ada\t* Bob has left
                bob\tclosed\t
                eve\tyour name?
                eve\twelcome, Eve
                status 143

                """, "\(run.errors)")
    }

    @Test("the bank carries out its commands in batches")
    func commands() throws {
        let run = try Binary.run([Self.path("commands.lua")])
        #expect(run.status == 0, "\(run.errors)")
        #expect(
            run.output == """
                open for business in mode default
                refused: 1000 of 150
                batch 1 done, balance 150
                batch 2 done, balance 100
                closed in mode default
                batch 3 done, balance 100

                """)
    }

    @Test("the drawing has a line for each pass, and shows which passes slept")
    func passes() throws {
        let run = try Binary.run([Self.path("passes.lua")])
        #expect(run.status == 0, "\(run.errors)")
        let drawing = run.output.replacing(/z \d+/, with: "z")
        #expect(
            drawing == """
                enter
                T S (pipe hello)
                T S z (20 ms)
                T S (source)
                T S z (150 ms)
                exit

                """)
    }

    @Test("while the dialogue is open, only its own events are handled, and the others afterwards")
    func dialogue() throws {
        let run = try Binary.run([Self.path("dialogue.lua")])
        #expect(run.status == 0, "\(run.errors)")
        // On a busy machine there may be one heartbeat more or less.
        let story = run.output.replacing(/(default|modal  ) \theartbeat\n/, with: "")
        #expect(
            story == """
                default \tsave before closing?
                default \tthe answer is yes
                default \tmessage: first
                default \tmessage: second

                """)
        #expect(run.output.contains("modal   \theartbeat\n"), "what is in both modes goes on")
    }

    @Test("the echo service serves its own client, and one in Python")
    func echo() throws {
        let run = try Self.shell(
            """
            chmod 700 .
            export XDG_RUNTIME_DIR=$PWD
            $RLHOST \(Self.path("echo_service.lua")) > out & service=$!
            await waiting out
            $RLHOST \(Self.path("echo_client.lua")) ada bob
            python3 \(Binary.repository)/docs/examples/message_client.py org.example.echo 1 hello
            $RLHOST \(Self.path("echo_client.lua")) -q
            wait $service; echo "status $?"
            cat out
            """)
        #expect(
            run.output == """
                ADA
                BOB
                a d a\u{20}
                b o b\u{20}
                HELLO
                bye
                status 0
                echo: waiting as org.example.echo
                echo: the name is free again

                """, "\(run.errors)")
    }
}
