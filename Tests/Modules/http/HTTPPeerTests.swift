import Foundation
import TestSupport
import Testing

/// `runloop.http` talks to foreign programs.
@Suite("HTTP with others", .timed)
struct HTTPPeerTests {
    private static let server = """
        local rl, http, json = require "runloop", require "runloop.http", require "runloop.json"
        local app = http.routes()
        local seen
        app:get("/", function() return http.html [[<!doctype html><script>
          const results = []
          const done = () => fetch("/done", { method: "POST", body: JSON.stringify(results) })
          fetch("/json").then(r => r.json()).then(j => {
            results.push("fetch " + j.a)
            const source = new EventSource("/events")
            source.addEventListener("n", e => {
              results.push("event " + e.data)
              if (e.data != "2") return
              source.close()
              const socket = new WebSocket(location.protocol.replace("http", "ws") + "//" + location.host + "/ws")
              socket.onopen = () => socket.send("x".repeat(1000))
              socket.onmessage = e => {
                results.push("socket " + e.data.length + " " + socket.extensions.split(";")[0])
                socket.close(1000)
              }
              socket.onclose = e => { results.push("closed " + e.code + " " + e.wasClean); done() }
            })
          })
        </script>]] end)
        app:get("/json", function() return http.json { a = 1 } end)
        app:get("/events", function(request)
          local events = request:respond():events()
          for i = 1, 2 do events:send { event = "n", data = tostring(i) } end
          events:wait_closed()
        end)
        app:websocket("/ws", function(socket)
          for message, kind in socket:messages() do socket:send(message, kind) end
        end)
        app:any("/echo", function(request)
          return { body = request:body(), headers = { ["x-method"] = request.method } }
        end)
        app:get("/pieces", function(request)
          local response = request:respond()
          for i = 1, 3 do response:write(i, ";") rl.sleep(0.01) end
        end)
        app:post("/done", function(request) print(request:body()) io.stdout:flush() return 204 end)
        app:files("/static/*", ".")
        local tls = { certificate = "cert.pem", key = "key.pem" }
        io.write(assert(http.serve(0, app)):address(), " ", assert(http.serve(0, { tls = tls }, app)):address(), "\\n")
        io.stdout:flush()
        """

    /// Runs a shell script in which `$host` is the address of a server, and `$secure` the address of a server with TLS
    /// and the certificate `cert.pem`. `out` is the script's output.
    private func shell(_ script: String, timeout: Double = 60) throws -> Binary.Result {
        try Binary.withDirectory { directory in
            try Data(Self.server.utf8).write(to: URL(filePath: directory + "/server.lua"))
            return try Binary.shell(
                """
                openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \\
                  -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost \\
                  -addext subjectAltName=IP:127.0.0.1,DNS:localhost 2>/dev/null
                $RLHOST server.lua > out 2> err & server=$!
                trap 'kill $server; wait' EXIT
                for i in $(seq 300); do [ -s out ] && break; sleep 0.05; done
                read -r host secure < out
                \(script)
                """, environment: ["HOME": directory], directory: directory, timeout: timeout)
        }
    }

    @Test("the server answers curl: methods, bodies of every kind, expectations, reuse")
    func curl() throws {
        let run = try shell(
            """
            head -c 3000000 /dev/zero > big
            curl -s -w ' %{http_code} %{num_connects}\\n' http://$host/json http://$host/json
            curl -s -X PATCH -d changed -D - http://$host/echo | tr -d '\\r' | grep -E '^x-method|^changed'
            curl -s -T big http://$host/echo | cmp - big && echo same
            curl -s -H 'Transfer-Encoding: chunked' -H 'Expect: 100-continue' --data-binary @big http://$host/echo \\
              | cmp - big && echo same
            curl -s -I http://$host/json | head -c 15; echo
            curl -s http://$host/pieces; echo
            curl -s --http1.0 http://$host/pieces; echo
            """)
        #expect(
            run.output == """
                {"a":1} 200 1
                {"a":1} 200 0
                x-method: PATCH
                changed
                same
                same
                HTTP/1.1 200 OK
                1;2;3;
                1;2;3;

                """, "\(run)")
    }

    @Test("the server answers curl over TLS: certificates, bodies, files, and the agreed protocol")
    func curlOverTLS() throws {
        let run = try shell(
            """
            head -c 3000000 /dev/urandom > big
            curl -s -w ' %{http_code} %{num_connects} %{http_version}\\n' --cacert cert.pem \\
              https://$secure/json https://$secure/json
            curl -s https://$secure/json; echo $?
            curl -s --cacert cert.pem -T big https://$secure/echo | cmp - big && echo same
            curl -s --cacert cert.pem https://$secure/static/big | cmp - big && echo same
            head -c 200000 big | tail -c +101 > part
            curl -s --cacert cert.pem -r 100-199999 https://$secure/static/big | cmp - part && echo part
            curl -s --cacert cert.pem https://$secure/pieces; echo
            curl -s -o answer -w '%{http_code}\n' http://$secure/json
            """)
        #expect(
            run.output == """
                {"a":1} 200 1 1.1
                {"a":1} 200 0 1.1
                60
                same
                same
                part
                1;2;3;
                400

                """, "\(run)")
    }

    @Test("the server answers Python's client, and the client gets files of Python's server")
    func python() throws {
        let run = try shell(
            """
            cat > client.py <<'END'
            import http.client, sys
            c = http.client.HTTPConnection(sys.argv[1])
            for i in range(3):
                c.request("POST", "/echo", body=b"x" * 100000)
                r = c.getresponse()
                print(r.status, len(r.read()))
            c.request("POST", "/echo", body=iter([b"a", b"b"]), encode_chunked=True,
                      headers={"Transfer-Encoding": "chunked"})
            print(c.getresponse().read())
            END
            python3 client.py $host
            echo hello > file
            python3 -u -m http.server 0 --bind 127.0.0.1 > py 2>&1 & python=$!
            for i in $(seq 300); do grep -q port py && break; sleep 0.05; done
            port=$(grep -o 'port [0-9]*' py | cut -d' ' -f2)
            fetch='local a = assert(require "runloop.http".get(arg[1])) io.write(a.status, " ", a.body)'
            $RLHOST -e "$fetch" /dev/null http://127.0.0.1:$port/file \\
              || $RLHOST -e "local url = 'http://127.0.0.1:$port/file'
                local a = assert(require 'runloop.http'.get(url)) io.write(a.status, ' ', a.body)"
            kill $python
            """)
        #expect(run.output == "200 100000\n200 100000\n200 100000\nb'ab'\n200 hello\n", "\(run)")
    }

    private static func exists(_ program: String) -> Bool {
        ["/usr/bin/", "/usr/local/bin/"].contains { FileManager.default.isExecutableFile(atPath: $0 + program) }
    }

    @Test("the server answers Node's fetch", .enabled(if: exists("node")))
    func node() throws {
        let run = try shell(
            """
            cat > client.mjs <<'END'
            const base = "http://" + process.argv[2]
            const all = await Promise.all([...Array(20)].map(() => fetch(base + "/json").then(r => r.json())))
            console.log(all.length, all[7].a)
            const echo = await fetch(base + "/echo", { method: "PUT", body: "ü".repeat(70000) })
            console.log(await echo.text() == "ü".repeat(70000))
            console.log(await (await fetch(base + "/pieces")).text())
            process.exit(0)
            END
            node client.mjs $host
            """)
        #expect(run.output == "20 1\ntrue\n1;2;3;\n", "\(run)")
    }

    @Test("nginx speaks HTTP/2 with the client, many requests on one connection", .enabled(if: exists("../sbin/nginx")))
    func http2() throws {
        let run = try shell(
            """
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \\
              -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2>/dev/null
            port=$((20000 + $$ % 20000))
            cat > nginx.conf <<END
            daemon off; master_process off; pid $PWD/pid; error_log stderr crit;
            events { }
            http { access_log off; client_body_temp_path $PWD; proxy_temp_path $PWD;
              fastcgi_temp_path $PWD; uwsgi_temp_path $PWD; scgi_temp_path $PWD;
              server { listen 127.0.0.1:$port ssl http2;
                ssl_certificate $PWD/cert.pem; ssl_certificate_key $PWD/key.pem;
                location / { return 200 "$(printf '\\044')server_protocol $(printf '\\044')connection"; } } }
            END
            /usr/sbin/nginx -c $PWD/nginx.conf -p $PWD 2> nginx.err & nginx=$!
            cat > client.lua <<END
            local rl, http = require "runloop", require "runloop.http"
            local client = http.client { tls = { ca = "$PWD/cert.pem" } }
            local url = "https://127.0.0.1:$port/"
            local first
            for _ = 1, 100 do first = client:get(url) if first then break end rl.sleep(0.05) end
            local connection, group = first.body:match " (.*)", rl.group()
            for _ = 1, 30 do
              group:task(function()
                local answer = assert(client:get(url))
                assert(answer.version == "2" and answer.body == "HTTP/2.0 " .. connection, answer.body)
              end)
            end
            group:wait()
            print(first.version, assert(client:get(url, { version = "1.1" })).version)
            client:close()
            END
            $RLHOST client.lua
            kill $nginx
            """)
        #expect(run.output == "2\t1.1\n", "\(run)")
    }

    @Test("without libcurl the client returns an error with the reason, and the server works")
    func missingCurl() throws {
        let run = try shell(
            """
            mkdir lib
            : > lib/libcurl.so.4
            cat > client.lua <<'END'
            local http = require "runloop.http"
            local _, message, code = http.get "http://127.0.0.1:1/"
            print(message:gsub(": /[^:]*/", ": "), code)
            print(select(3, http.open { "http://127.0.0.1:1/" }))
            local server = assert(http.serve(0, function() return "hello" end))
            local net = require "runloop.net"
            local stream = assert(net.connect(server:address()))
            stream:write "GET / HTTP/1.0\\r\\n\\r\\n"
            print(stream:read_all():match "hello")
            stream:close()
            server:stop(1)
            END
            LD_LIBRARY_PATH=$PWD/lib $RLHOST client.lua
            """)
        #expect(
            run.output
                == "module 'runloop.http': libcurl.so.4 cannot be loaded: libcurl.so.4: file too short\tENOPKG\n"
                + "ENOPKG\nhello\n",
            "\(run)")
    }

    @Test("a library that could not be opened for lack of descriptors is opened later")
    func passingWant() throws {
        let run = try shell(
            """
            cat > client.lua <<'END'
            local http, net = require "runloop.http", require "runloop.net"
            local server = assert(net.serve(0, function(stream) stream:read() end))
            local where = server:address()
            local files = {}
            for file in function() return (io.open "/dev/null") end do files[#files + 1] = file end
            local function try()
              print(select(3, http.get "http://127.0.0.1:1/"))
              print(select(3, net.connect(where, { tls = { ca = "/nowhere" } })))
            end
            print((select(2, http.get "http://127.0.0.1:1/")))
            print((select(2, net.connect(where, { tls = true }))))
            try()
            for _, file in ipairs(files) do file:close() end
            collectgarbage()
            try()
            server:close()
            END
            ulimit -n 64
            $RLHOST client.lua
            """)
        #expect(
            run.output == """
                EMFILE: too many open files (libcurl.so.4)
                EMFILE: too many open files (libssl.so.3)
                EMFILE
                EMFILE
                ECONNREFUSED
                ENOENT

                """, "\(run)")
    }

    @Test(
        "a browser's page uses fetch, EventSource and WebSocket", .enabled(if: exists("chromium")),
        arguments: ["http://$host", "https://$secure"])
    func browser(_ place: String) throws {
        let run = try shell(
            """
            chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \\
              --no-proxy-server \\
              --ignore-certificate-errors --user-data-dir=$HOME/profile \(place)/ > /dev/null 2>&1 & browser=$!
            for i in $(seq 900); do [ "$(wc -l < out)" -ge 2 ] && break; sleep 0.1; done
            kill $browser
            wait $browser 2>/dev/null
            tail -n 1 out
            """, timeout: 120)
        #expect(
            run.output
                == "[\"fetch 1\",\"event 1\",\"event 2\",\"socket 1000 permessage-deflate\",\"closed 1000 true\"]\n",
            "\(run)")
    }
}
