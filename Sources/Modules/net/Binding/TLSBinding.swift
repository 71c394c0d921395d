internal import Lua
internal import LuaRunLoops
internal import RunLoops
internal import Streams

/// TLS of streams for scripts. The functions that wait several times are in the Lua half.
enum TLSBinding {
    /// Settings, which the Lua half passes to streams.
    static let kind: Kind = Kind("tls_settings", methods: Library([]), collect: Kind.drop)

    private enum Option: Int, Field {
        case serverName, verify, ca, certificate, key, protocols, minVersion, clientCA, sni, server, timeout
        static let names: [StaticString] = [
            "server_name", "verify", "ca", "certificate", "key", "protocols", "min_version", "client_ca", "sni",
            "server",
            "timeout",
        ]
    }

    private enum Version: Parameter {
        static let expected = "\"1.2\" or \"1.3\""
        static func read(_ stack: Stack, _ index: Int32) -> Bool? {
            switch stack.string(index) {
            case "1.2": false
            case "1.3": true
            default: nil
            }
        }
    }

    private enum Protocols: Parameter {
        static let expected = "an array of protocols' names, each of 1 to 255 bytes"
        static func read(_ stack: Stack, _ index: Int32) -> [String]? {
            stack.elements(of: index) { stack.string(-1).flatMap { (1...255).contains($0.utf8.count) ? $0 : nil } }
        }
    }

    /// A file's path or PEM text.
    private enum Source: Parameter {
        static let expected = "a file's path, or PEM text"
        static func read(_ stack: Stack, _ index: Int32) -> String? {
            stack.string(index).flatMap { $0.isEmpty || $0.utf8.contains(0) ? nil : $0 }
        }
    }

    /// Makes settings from (options, whether they are a server's).
    static func make(_ call: Call) throws(Misuse) -> Int32 {
        let fields = try call.fields(2, Option.self)
        var settings = TLSContext.Settings()
        settings.isServer = try call.argument(3, Boolean.self)
        settings.certificate = try fields[.certificate, Source.self]
        settings.key = try fields[.key, Source.self]
        settings.protocols = try fields[.protocols, Protocols.self] ?? []
        settings.needsTLS13 = try fields[.minVersion, Version.self] ?? false
        _ = try fields[.serverName, Text.self]
        _ = try fields[.timeout, Seconds.self]
        let hasSNI = try fields[.sni, Function.self] != nil
        if settings.isServer {
            settings.authorities = try fields[.clientCA, Source.self]
            settings.verifies = settings.authorities != nil
            settings.asksForName = hasSNI
            if settings.certificate == nil, !hasSNI { throw Misuse("a server needs the field 'certificate', or 'sni'") }
        } else {
            settings.authorities = try fields[.ca, Source.self]
            settings.verifies = try fields[.verify, Boolean.self] ?? true
        }
        if settings.key != nil, settings.certificate == nil {
            throw Misuse("field 'key' needs the field 'certificate'")
        }
        let part = call.luaHost.part(NetPart.self)
        let usesFiles = settings.certificate != nil || settings.authorities != nil
        return call.attempt { () throws(StreamFailure) in
            let context: TLSContext
            if let known = part.contexts[settings] { context = known } else { context = try TLSContext(settings) }
            if !usesFiles { part.contexts[settings] = context }
            return call.answerConstructed(context)
        }
    }

    // MARK: Streams' methods

    static let methods: [Library.Entry] = [
        .init("was_accepted") { StreamBinding.stream($0).answer { $0.wasAccepted } },
        // (settings, the server's name)
        .init("begin_tls", saidAs: "stream:start_tls") {
            StreamBinding.stream($0).run { (stream, call) throws(Misuse) in
                guard let context = call.stack.object(2, kind, as: TLSContext.self) else {
                    throw call.wrong(2, "TLS settings")
                }
                let name = try call.optional(3, Text.self)
                // A waiting reader would get bytes that belong to TLS.
                try StreamBinding.checkIsFree(stream, call)
                return call.attempt { () throws(StreamFailure) in try stream.startTLS(context, name: name) }
            }
        },
        // Waits. Returns a text when the handshake is done; nil alone if it stops at a name.
        .init("handshake", saidAs: "stream:start_tls") {
            StreamBinding.stream($0).run { (stream, call) throws(Misuse) in
                try StreamBinding.begin(stream, call, .handshake, "stream:start_tls", 2, limit: .max)
            }
        },
        .init("requested_name") { StreamBinding.stream($0).answer { $0.requestedName } },
        // (listener): from now on the listener's functions receive the input.
        .init("deliver") {
            StreamBinding.stream($0).run { stream, call in
                if let listener = ListenerBinding.listener(call, 2) {
                    call.luaHost.part(NetPart.self).deliver(stream, listener, call)
                }
                return call.answer(true)
            }
        },
        .init("continue_tls") {
            StreamBinding.stream($0).run { stream, call in
                stream.continueTLS(call.stack.object(2, kind, as: TLSContext.self))
                return call.answer(true)
            }
        },
        // (whether the name is unknown)
        .init("refuse_tls") {
            StreamBinding.stream($0).run { stream, call in
                stream.refuseTLS(nameIsUnknown: call.stack.boolean(2))
                return 0
            }
        },
        // (listener): the running task counts as the connection's again.
        .init("end_choice") {
            StreamBinding.stream($0).run { stream, call in
                if let listener = ListenerBinding.listener(call, 2), let box = Box(bitPattern: listener.context) {
                    call.luaHost.current?.runs(call.receiver, slot: box.slot)
                }
                return 0
            }
        },
        .init("leave_tls") { StreamBinding.stream($0).answer { $0.leaveTLS() } },
        .init("give_up_tls") { StreamBinding.stream($0).act { $0.giveUpTLS() } },
        .init("tls") { StreamBinding.stream($0).answer { $0.tlsInfo.map(describe) } },
    ]

    private static func describe(_ info: TLSInfo) -> ValueProgram {
        var program = ValueProgram()
        program.table { table in
            table.field("version") { $0.append(info.version) }
            table.field("cipher") { $0.append(info.cipher) }
            if let name = info.protocolName { table.field("protocol") { $0.append(name) } }
            guard let certificate = info.certificate else { return }
            table.field("certificate") { value in
                value.table { table in
                    table.field("subject") { $0.append(certificate.subject) }
                    table.field("issuer") { $0.append(certificate.issuer) }
                    table.field("names") { $0.append(list: certificate.names) }
                    table.field("not_after") { $0.append(certificate.notAfter) }
                    table.field("fingerprint") { $0.append(certificate.fingerprint) }
                    table.field("is_verified") { $0.append(certificate.isVerified) }
                }
            }
        }
        return program
    }
}
