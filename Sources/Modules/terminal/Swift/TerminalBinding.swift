internal import Glibc
internal import LineEditor
internal import Linux
internal import Lua
internal import LuaRunLoops

/// The native functions of `runloop.terminal` and `runloop.log`, which are written in Lua.
enum TerminalBinding {
    static let functions = Library(
        "runloop.terminal.",
        [
            .init("is_terminal") {
                Call.answer($0) { call throws(Misuse) in Descriptor.isTerminal(try call.number32()) }
            },
            .init("size") { Call.run($0) { call throws(Misuse) in try size(call) } },
            .init("raw") { Call.run($0) { call throws(Misuse) in try raw(call) } },
            // Whether a program that this process has started has the terminal.
            .init("is_lent") { Call.answer($0) { _ in RawTerminal.isLent } },
            .init("cook") { Call.act($0) { call throws(Misuse) in RawTerminal.end(try call.number32()) } },
            .init("farewell") { Call.act($0) { call throws(Misuse) in try farewell(call) } },
            // Opens the terminal that controls the process, whatever its standard descriptors are. The descriptor does
            // not block.
            .init("open") { Call($0).attempt { () throws(SystemError) in Int(try RawTerminal.own().release()) } },
            .init("write") { Call.run($0) { call throws(Misuse) in try write(call) } },
            .init("read") { Call.run($0) { call throws(Misuse) in try read(call) } },
            .close,
            .init("width") { Call.run($0) { call throws(Misuse) in try width(call) } },
            .init("decoder", constructs: decoder) { Call($0).answerConstructed(KeyReader()) },
        ])

    /// Restores the terminals when the Lua state ends.
    final class Part: HostPart {
        override func willClose() { RawTerminal.endAll() }
        override func reset() { RawTerminal.endAll() }
    }

    /// Decodes the bytes that a terminal sends into keys.
    final class KeyReader {
        var decoder = KeyDecoder()

        func feed(_ bytes: UnsafeRawBufferPointer) -> ValueProgram {
            var keys: [Key] = []
            for byte in bytes {
                let (first, second) = decoder.push(byte)
                if let first { keys.append(first) }
                if let second { keys.append(second) }
            }
            return TerminalBinding.program(of: keys)
        }
    }

    static let decoder: Kind = Kind("key_decoder", methods: decoderMethods, collect: Kind.drop)
    private static let decoderMethods: Library = Library(
        of: decoder,
        [
            .init("feed") {
                receiver($0, KeyReader.self).run { (reader, call) throws(Misuse) in
                    call.answer(reader.feed(try call.argument(2, Bytes.self)))
                }
            },
            .init("flush") { receiver($0, KeyReader.self).answer { TerminalBinding.program(of: $0.decoder.flush()) } },
            .init("is_inside") { receiver($0, KeyReader.self).answer { $0.decoder.isInsideSequence } },
        ])

    private static func size(_ call: Call) throws(Misuse) -> Int32 {
        let fd = try call.number32()
        return call.attempt { () throws(SystemError) in
            let size = try RawTerminal.size(fd)
            call.stack.push(size.rows)
            call.stack.push(size.columns)
            return call.values(2)
        }
    }

    /// raw(descriptor, signals): switches the terminal to raw mode, with or without signals for Control-C.
    private static func raw(_ call: Call) throws(Misuse) -> Int32 {
        let fd = try call.number32()
        _ = call.luaHost.part(Part.self)
        return call.attempt { () throws(SystemError) in try RawTerminal.begin(fd, signals: call.stack.boolean(2)) }
    }

    /// farewell(descriptor, text at the end or at a stop, text after a stop): registers texts that are written to the
    /// terminal at these moments.
    private static func farewell(_ call: Call) throws(Misuse) {
        let greeting = try call.argument(3, Text.self)
        RawTerminal.setFarewell(try call.argument(2, Text.self), greeting: greeting, of: try call.number32())
    }

    /// write(descriptor, text): writes all of the text. Returns true, or nil and the reason.
    private static func write(_ call: Call) throws(Misuse) -> Int32 {
        let fd = try call.number32()
        let failure = Descriptor.write(try call.argument(2, Bytes.self), to: fd)
        return failure == 0 ? call.answer(true) : call.fail(SystemError("write", "descriptor \(fd)", errno: failure))
    }

    /// read(descriptor, most): returns at most that many bytes, "" at the end, and nil if no bytes are available.
    private static func read(_ call: Call) throws(Misuse) -> Int32 {
        let fd = try call.number32()
        let most = max(1, min(4096, try call.argument(2, Integer.self)))
        return withUnsafeTemporaryAllocation(byteCount: most, alignment: 1) { buffer in
            let count = Glibc.read(fd, buffer.baseAddress, buffer.count)
            // Reading a terminal whose other end is closed fails with EIO, which counts as the end.
            if count < 0, errno != EIO { return call.answerNil() }
            return call.answer(String(anyBytes: UnsafeRawBufferPointer(rebasing: buffer[..<max(0, count)])))
        }
    }

    /// Returns the columns that a text takes. Escape sequences that set colours take no columns.
    private static func width(_ call: Call) throws(Misuse) -> Int32 {
        let bytes = try call.argument(1, Bytes.self)
        var text: [UInt8] = []
        var place = 0
        while place < bytes.count {
            if bytes[place] == 0x1B, place + 1 < bytes.count, bytes[place + 1] == UInt8(ascii: "[") {
                place += 2
                while place < bytes.count, !(0x40...0x7E).contains(bytes[place]) { place += 1 }
            } else {
                text.append(bytes[place])
            }
            place += 1
        }
        return call.answer(CharacterWidth.of(text: String(decoding: text, as: UTF8.self)))
    }

    // MARK: Keys as scripts see them

    /// { { name =, text =, control =, alt =, shift =, paste =, mouse = }, … }
    private static func program(of keys: [Key]) -> ValueProgram {
        var program = ValueProgram()
        program.table { table in
            for key in keys where key != .unknown { table.element { describe(key, in: &$0) } }
        }
        return program
    }

    private static func describe(_ key: Key, in program: inout ValueProgram) {
        program.table { table in
            switch key {
            case .scalar(let scalar), .literal(let scalar): character(scalar, [], &table)
            case .meta(let scalar): character(scalar, .alt, &table)
            case .named(let name, let modifiers):
                named(
                    name == .backTab ? "tab" : snake(name.rawValue),
                    name == .backTab ? modifiers.union(.shift) : modifiers, &table)
            case .function(let number, let modifiers): named("f\(number)", modifiers, &table)
            case .paste(let bytes):
                table.field("name") { $0.append("paste") }
                table.field("paste") { $0.append(bytes: bytes) }
            case .mouse(let mouse):
                named("mouse", mouse.modifiers, &table)
                table.field("mouse") { program in
                    program.table { table in
                        table.field("action") { $0.append(snake(mouse.action.rawValue)) }
                        table.field("button") { $0.append(mouse.button) }
                        table.field("row") { $0.append(mouse.row) }
                        table.field("column") { $0.append(mouse.column) }
                    }
                }
            case .unknown: break
            }
        }
    }

    private static func snake(_ name: String) -> String {
        name.reduce("") { $0 + ($1.isUppercase ? "_" + $1.lowercased() : String($1)) }
    }

    private static func named(_ name: String, _ modifiers: Key.Modifiers, _ table: inout ValueProgram) {
        let prefix =
            (modifiers.contains(.control) ? "ctrl-" : "") + (modifiers.contains(.alt) ? "alt-" : "")
            + (modifiers.contains(.shift) ? "shift-" : "")
        table.field("name") { $0.append(prefix + name) }
        if modifiers.contains(.control) { table.field("control") { $0.append(true) } }
        if modifiers.contains(.alt) { table.field("alt") { $0.append(true) } }
        if modifiers.contains(.shift) { table.field("shift") { $0.append(true) } }
    }

    private static func character(_ scalar: Unicode.Scalar, _ modifiers: Key.Modifiers, _ table: inout ValueProgram) {
        switch scalar.value {
        case 0x0D, 0x0A: named("enter", modifiers, &table)
        case 0x09: named("tab", modifiers, &table)
        case 0x1B: named("escape", modifiers, &table)
        case 0x7F, 0x08: named("backspace", modifiers, &table)
        case 0x00: named("space", modifiers.union(.control), &table)
        case 0x01...0x1A:
            named(String(UnicodeScalar(UInt8(scalar.value) + 0x60)), modifiers.union(.control), &table)
        case 0x1C...0x1F:
            named(String(UnicodeScalar(UInt8(scalar.value) + 0x40)), modifiers.union(.control), &table)
        case 0x20:
            named("space", modifiers, &table)
            if modifiers.isEmpty { table.field("text") { $0.append(" ") } }
        default:
            named(String(scalar), modifiers, &table)
            if modifiers.isEmpty { table.field("text") { $0.append(String(scalar)) } }
        }
    }
}
