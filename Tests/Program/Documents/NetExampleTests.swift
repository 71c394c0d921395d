import Foundation
import TestSupport
import Testing

/// The example programs of the network, with peers other than rlhost.
@Suite("Network examples", .timed)
struct NetExampleTests {
    private static func shell(_ script: String) throws -> Binary.Result {
        try Binary.shell(script, environment: ["EXAMPLES": Binary.repository + "/docs/examples/net"])
    }

    @Test("the chat room sends each line to the other clients")
    func chat() throws {
        let run = try Self.shell(
            """
            "$RLHOST" "$EXAMPLES/chat.lua" 0 > chat.$$ & server=$!
            until grep -q listening chat.$$; do sleep 0.02; done
            python3 - $(grep -o '[0-9]*$' chat.$$) <<'END'
            import socket, sys
            def client(name):
                s = socket.create_connection(("localhost", int(sys.argv[1])))
                f = s.makefile("rw")
                assert f.read(6) == "name? "
                f.write(name + "\\n"); f.flush()
                return s, f
            a, ada = client("Ada")
            b, bob = client("Bob")
            print(ada.readline(), end="")
            bob.write("hello\\n"); bob.flush()
            print(ada.readline(), end="")
            bob.close(); b.close()
            print(ada.readline(), end="")
            END
            kill $server; wait $server; rm chat.$$
            """)
        #expect(run.output == "Bob comes\nBob: hello\nBob leaves\n", "\(run.errors)")
    }

    @Test("the TLS client reads from OpenSSL's server")
    func tls() throws {
        let run = try Self.shell(
            """
            dir=$(mktemp -d); cd $dir
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem -days 2 \\
              -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
            port=$((20000 + $$ % 10000))
            openssl s_server -accept $port -cert cert.pem -key key.pem -WWW -quiet 2>/dev/null & server=$!
            for i in 1 2 3 4 5 6 7 8 9 10; do
              "$RLHOST" "$EXAMPLES/tls_client.lua" localhost:$port cert.pem > out 2> errors && break
              sleep 0.2
            done
            head -2 out; kill $server; rm -r $dir
            """)
        #expect(run.output == "TLSv1.3\tCN=localhost\nHTTP/1.0 200 ok\n", "\(run.errors)")
    }

    @Test("the forwarder passes data and ends both ways, and the service gets its users' numbers")
    func forwardAndService() throws {
        let run = try Self.shell(
            """
            socket=$(mktemp -u)
            "$RLHOST" "$EXAMPLES/service.lua" $socket > service.$$ & service=$!
            until [ -S $socket ]; do sleep 0.02; done
            "$RLHOST" "$EXAMPLES/forward.lua" localhost:0 unix:$socket > forward.$$ & forward=$!
            until grep -q forwarding forward.$$; do sleep 0.02; done
            python3 - $(sed 's/ to .*//; s/.*://' forward.$$) <<'END'
            import socket, sys, os
            s = socket.create_connection(("localhost", int(sys.argv[1])))
            f = s.makefile("rw")
            print(f.readline().split(" of ")[1] == "user %d\\n" % os.getuid())
            f.write("x\\nstop\\n"); f.flush(); s.shutdown(socket.SHUT_WR)
            print(f.read(), end="")
            END
            wait $service; echo "service $?"; kill $forward; wait $forward; ls $socket 2>/dev/null; rm service.$$ forward.$$
            """)
        #expect(run.output == "True\nunknown command: x\nstopping\nservice 0\n", "\(run.errors)")
    }
}
