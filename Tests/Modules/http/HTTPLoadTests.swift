import Foundation
import TestSupport
import Testing

/// `runloop.http` under load, with real sockets: the number of system calls, and the memory that clients leave behind.
@Suite("HTTP under load", .timed)
struct HTTPLoadTests {
    private static let hasStrace = FileManager.default.isExecutableFile(atPath: "/usr/bin/strace")

    @Test(
        "files are sent by sendfile, and are not read",
        .enabled(if: hasStrace, "strace is missing: apt-get install strace, as scripts/test does"))
    func sendfile() throws {
        let run = try Binary.withDirectory { directory in
            try Binary.shell(
                """
                head -c 5000000 /dev/urandom > big
                cat > server.lua <<'END'
                local http = require "runloop.http"
                print(assert(http.serve(0, http.routes():files("/*", "."))):address())
                io.stdout:flush()
                END
                strace -f -e trace=sendfile,read,pread64 -o calls $RLHOST server.lua > out & tracer=$!
                trap 'pkill -P $tracer; wait' EXIT
                for i in $(seq 300); do [ -s out ] && break; sleep 0.05; done
                host=$(head -n 1 out)
                curl -s http://$host/big | cmp - big && echo whole
                tail -c +1000001 big | head -c 1000000 > part
                curl -s -r 1000000-1999999 http://$host/big | cmp - part && echo part
                awk '$NF !~ /^[0-9]+$/ { next }
                  /sendfile/ { sent += $NF }
                  / p?read/ && $NF > 65536 { read += $NF }
                  END { print sent, read + 0 }' calls
                """, environment: ["HOME": directory], directory: directory, timeout: 60)
        }
        #expect(run.output == "whole\npart\n6000000 0\n", "\(run)")
    }

    private static let crowd = Soak.isLong ? 10_000 : 500
    /// Seconds after which the server closes an idle connection.
    private static let idleTimeout = Soak.isLong ? 20 : 3

    @Test("idle connections cost little, are closed at their time limit, and leave nothing", .soak(seconds: 60))
    func idle() throws {
        let run = try Binary.withDirectory { directory in
            try Binary.shell(
                """
                ulimit -n $(ulimit -Hn)
                cat > server.lua <<'END'
                local rl, http = require "runloop", require "runloop.http"
                local function resident()
                  collectgarbage()
                  collectgarbage()
                  return tonumber(io.open "/proc/self/smaps_rollup":read "a":match "Anonymous: +(%d+)")
                end
                local options = { idle_timeout = \(Self.idleTimeout) }
                local server = assert(http.serve("127.0.0.1:0", options, function(request)
                  if request.path == "/" then return "hello" end
                  local count = server_of:statistics().open
                  if request.path == "/before" then memory = resident() return "ready" end
                  if request.path == "/after" then
                    return ("%d %.1f"):format(count, (resident() - memory) / (count - 1))
                  end
                  return tostring(count)
                end))
                server_of = server
                print(server:address())
                io.stdout:flush()
                END
                cat > clients.py <<'END'
                import http.client, socket, sys, time
                host, port = sys.argv[1].split(":")
                count = int(sys.argv[2])
                def ask(path):
                    c = http.client.HTTPConnection(host, int(port), timeout=60)
                    c.request("GET", path, headers={"Connection": "close"})
                    text = c.getresponse().read().decode()
                    c.close()
                    return text
                ask("/"); ask("/before")
                clients = [socket.create_connection((host, int(port))) for _ in range(count)]
                for c in clients: c.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
                for c in clients: assert c.recv(1000).endswith(b"hello")
                open_now, kilobytes = ask("/after").split()
                print(open_now, "little" if float(kilobytes) < 8 else kilobytes + " kB each")
                for c in clients:
                    c.settimeout(60)
                    assert c.recv(10) == b""
                for c in clients: c.close()
                for _ in range(100):
                    left = ask("/count")
                    if left == "1": break
                    time.sleep(0.1)
                print(left)
                END
                $RLHOST server.lua > out & server=$!
                trap 'kill $server; wait' EXIT
                for i in $(seq 300); do [ -s out ] && break; sleep 0.05; done
                python3 clients.py $(cat out) \(Self.crowd)
                """, environment: ["HOME": directory], directory: directory, timeout: 300)
        }
        #expect(run.output == "\(Self.crowd + 1) little\n1\n", "\(run)")
    }

    @Test("a client that never reads is disconnected, and its answer is not buffered")
    func neverReads() throws {
        let run = try Binary.withDirectory { directory in
            try Binary.shell(
                """
                cat > test.lua <<'END'
                local rl, net, http = require "runloop", require "runloop.net", require "runloop.http"
                local ended, block = 0, ("x"):rep(65536)
                local function resident()
                  return tonumber(io.open "/proc/self/smaps_rollup":read "a":match "Anonymous: +(%d+)")
                end
                local server = assert(http.serve("127.0.0.1:0", { idle_timeout = 1 }, function(request)
                  local leaving <close> = setmetatable({}, { __close = function() ended = ended + 1 end })
                  local response = request:respond()
                  for _ = 1, 10000 do if not response:write(block) then return end end
                end))
                local before = resident()
                local clients = {}
                for i = 1, 20 do
                  clients[i] = assert(net.connect(server:address()))
                  clients[i]:write "GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"
                end
                rl.sleep(0.5)
                -- Each may have as much on its way as a write waits for, and what the kernel has does not count.
                print(ended, resident() - before < 20 * 1024 and "bounded" or resident() - before)
                for _ = 1, 200 do
                  if ended == 20 and server:statistics().open == 0 then break end
                  rl.sleep(0.1)
                end
                print(ended, server:statistics().active, server:statistics().open)
                os.exit(0)
                END
                $RLHOST test.lua
                """, environment: ["HOME": directory], directory: directory, timeout: 60)
        }
        #expect(run.output == "0\tbounded\n20\t0\t0\n", "\(run)")
    }
}
