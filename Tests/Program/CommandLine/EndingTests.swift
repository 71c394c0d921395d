import Foundation
import TestSupport
import Testing

/// How the process ends while its threads continue.
@Suite("Command line: ends at random moments", .timed)
struct EndingTests {
    /// Each run makes other random programs. The script never ends by itself.
    @Test("random programs end in the intended way, at random moments, and by no other signal")
    func programs() throws {
        let run = try Binary.shell(
            "exec python3 \(Binary.repository)/scripts/soak endings 30", timeout: 300)
        #expect(run.status == 0 && run.output.contains("endings: 0 of 30 "), "\(run.output) \(run.errors)")
    }

    @Test("no program outlives the process that another thread has started meanwhile")
    func startedLate() throws {
        let script = """
            local rl = require "runloop"
            for i = 1, 4 do rl.thread { function()
              local process = require "runloop.process"
              while true do process.start { "sleep", "31.4159" } end
            end, keeps_alive = false } end
            rl.sleep(0.2)
            os.exit(0)
            """
        let run = try Binary.shell(
            "$RLHOST -e \"$SCRIPT\"; echo $?; pgrep -fxc 'sleep 31.4159'", environment: ["SCRIPT": script])
        #expect(run.output == "0\n0\n", "\(run)")
    }

    @Test("a recording is completed while threads that it records end")
    func recordings() throws {
        let script = """
            local rl = require "runloop"
            for k = 1, 60 do
              assert(rl.trace.start "t.json")
              local threads = {}
              for i = 1, 8 do threads[i] = rl.thread(function() end) end
              for i = 1, k % 9 do threads[math.min(i, 8)]:join() end
              rl.trace.stop()
              for i = 1, 8 do threads[i]:join() end
            end
            print "ok"
            """
        let run = try Binary.withDirectory { try Binary.run(["-e", script], directory: $0) }
        #expect(run.status == 0 && run.output == "ok\n", "\(run)")
    }

    @Test("os.exit in a thread completes the recording")
    func exitInThread() throws {
        let script =
            "local rl = require 'runloop' rl.thread(function() require 'runloop'.sleep(0.01) os.exit(7) end) "
            + "rl.sleep(30)"
        try Binary.withDirectory { directory in
            let run = try Binary.run(["--trace=x.json", "-e", script], directory: directory)
            #expect(run.status == 7, "\(run)")
            let recording = try Data(contentsOf: URL(fileURLWithPath: directory).appendingPathComponent("x.json"))
            #expect(throws: Never.self) { try JSONSerialization.jsonObject(with: recording) }
        }
    }

    @Test("os.exit ends threads in the middle of TLS, whichever library has loaded OpenSSL")
    func exitDuringTLS() throws {
        let script = """
            local rl, http = require "runloop", require "runloop.http"
            http.get "http://127.0.0.1:1/"                     -- loads libcurl, and with it OpenSSL
            for i = 1, 6 do rl.thread { function()
              local net, rl = require "runloop.net", require "runloop"
              while true do
                local a, b = net.pair()
                rl.task(function() a:start_tls { server = true, certificate = "cert.pem", key = "key.pem" } end)
                b:start_tls { verify = false } b:abort() a:abort()
              end
            end, keeps_alive = false } end
            rl.sleep(0.05)
            os.exit(0)
            """
        let run = try Binary.withDirectory {
            try Binary.shell(
                """
                openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem -days 2 \
                  -subj /CN=localhost 2>/dev/null
                for i in 1 2 3 4 5 6; do $RLHOST -e "$SCRIPT"; printf '%s ' $?; done
                """, environment: ["SCRIPT": script], directory: $0, timeout: 120)
        }
        #expect(run.output == "0 0 0 0 0 0 ", "\(run)")
    }

    /// C's `exit` sets the position of the input, as in stock Lua.
    @Test("a seekable input continues where the script has stopped reading")
    func input() throws {
        for end in ["", "os.exit(0)", "os.exit(0, true)"] {
            let run = try Binary.withDirectory {
                try Binary.shell(
                    "seq 1 5 >input; ($RLHOST -e \"print(io.read()) \(end)\"; cat) <input", directory: $0)
            }
            #expect(run.output == "1\n2\n3\n4\n5\n", "\(run)")
        }
    }

    @Test("files that are open are written out, also while a thread waits for input")
    func files() throws {
        let script = """
            local rl = require 'runloop'
            local file = io.open('file', 'w')
            file:write 'kept'
            rl.thread(function() io.read() end)
            rl.sleep(0.05)
            io.write 'printed'
            os.exit(3)
            """
        try Binary.withDirectory { directory in
            let run = try Binary.Process(["-e", script], directory: directory).finish()
            #expect(run.status == 3 && run.output == "printed", "\(run)")
            let file = URL(fileURLWithPath: directory).appendingPathComponent("file")
            #expect(try String(contentsOf: file, encoding: .utf8) == "kept")
        }
    }
}
