import TestSupport
import Testing

/// The examples of HTTP servers and clients, with curl as the peer.
@Suite("HTTP examples", .timed)
struct HTTPExampleTests {
    /// Runs a script of the shell in which `start NAME…` starts an example and sets `url` to the address that it
    /// prints.
    private func shell(_ script: String) throws -> Binary.Result {
        let start = """
            start() {
              example=$1; shift
              $RLHOST \(Binary.repository)/docs/examples/$example "$@" > $example.out 2> $example.err & last=$!
              started="$started $last"
              for i in $(seq 300); do [ -s $example.out ] && break; sleep 0.05; done
              url=$(head -n 1 $example.out | cut -d' ' -f1)
            }
            trap 'kill $started 2>/dev/null; wait' EXIT

            """
        return try Binary.withDirectory { try Binary.shell(start + script, directory: $0) }
    }

    @Test("the live service sends new items at once, also behind the proxy")
    func live() throws {
        let run = try shell(
            """
            start live.lua 0; direct=$url
            start proxy.lua 0 $direct
            curl -sN -m 20 ${url}events > events & curl=$!
            sleep 0.3
            curl -s -d '{"text":"one"}' -o /dev/null -w '%{http_code}\\n' ${url}items
            curl -s -d '{"text":1}' ${url}items
            for i in $(seq 100); do grep -q one events && break; sleep 0.05; done
            kill $curl
            grep -c '^id: 1' events
            curl -s ${direct} | grep -o '<h1>Live</h1>'
            curl -s ${url}items | grep -o '"text":"one"'
            """)
        #expect(run.output == "201\ntext is missing\n1\n<h1>Live</h1>\n\"text\":\"one\"\n", "\(run)")
    }

    @Test("the poller asks all servers, and asks again without an answer")
    func poller() throws {
        let run = try shell(
            """
            start live.lua 0
            $RLHOST \(Binary.repository)/docs/examples/poller.lua ${url}items ${url}none http://127.0.0.1:9/ 2>/dev/null | cut -c1-4 | sort
            """)
        #expect(run.output == "--- \n200 \n404 \n", "\(run)")
    }

    @Test("the webhook accepts signed requests only")
    func webhook() throws {
        // HMAC-SHA256 of {"a":1} with the key "key".
        let run = try shell(
            """
            export SECRET=key
            start webhook.lua 0
            signature=$(python3 -c 'import hmac; print(hmac.new(b"key", b"{\\"a\\":1}", "sha256").hexdigest())')
            for s in $signature 00$signature; do
              curl -s -o /dev/null -w '%{http_code}\\n' -H "X-Hub-Signature-256: sha256=$s" -d '{"a":1}' $url
            done
            grep event webhook.lua.out
            """)
        #expect(run.output == "204\n401\nevent\t{\"a\":1}\n", "\(run)")
    }
}
