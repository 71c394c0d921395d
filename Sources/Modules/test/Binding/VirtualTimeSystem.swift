internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// What the Lua-written test runner needs of the operating system. Its arguments come from there: they are checked no more
/// than safety needs.
enum VirtualTimeSystem {
    static let functions: [Library.Entry] = [
        .init("start") { start(Call($0)) },
        .init("ended") { ended(Call($0)) },
        .init("signal") { signal(Call($0)) },
        .init("read") { read(Call($0)) },
        .init("write") { write(Call($0)) },
        .init("mark") { mark(Call($0)) },
        .init("programs") { programs(Call($0)) },
        .init("emit") { Call.act($0, emit) },
        .init("close") { Call.act($0, close) },
        .init("open_fds") { openDescriptors(Call($0)) },
        // fd_target(fd): what /proc says it is.
        .init("fd_target") { Call.answer($0) { link("/proc/self/fd/\(fd($0, 1))") } },
        .init("entries") { entries(Call($0)) },
        .init("kind") { kind(Call($0)) },
        // program(): the path of this program.
        .init("program") { Call.answer($0) { _ in program } },
        .init("is_terminal") { Call($0).answer(isatty(Int32(Call($0).integer(1) ?? 1)) != 0) },
        .init("real_clock") { Call($0).answer(Time.seconds(RunLoop.Instant.now.nanoseconds)) },
        .init("count_lines") { Call.act($0, countLines) },
        .init("take_lines") { takeLines(Call($0)) },
    ]

    private static func bytes(_ call: Call, _ index: Int32) -> [CChar]? {
        call.bytes(index).map { $0.map { CChar(bitPattern: $0) } + [0] }
    }

    private static func fd(_ call: Call, _ index: Int32) -> Int32 {
        call.integer(index).flatMap { Int32(exactly: $0) } ?? -1
    }

    /// start(arguments): starts a worker. Answers its number, a two-way channel, which is its descriptor 3, what it writes, and a
    /// descriptor that tells its end.
    private static func start(_ call: Call) -> Int32 {
        guard let arguments = ByteStrings.read(call.stack, 1), !arguments.isEmpty else {
            return call.raise("start: wrong arguments")
        }
        return call.attempt { () throws(SystemError) in
            let channel = try Descriptor.pair(twoWay: true)
            let output = try Descriptor.pair()
            let program = try Program.start(
                arguments, descriptors: [3: channel.1, 1: output.1, 2: output.1])
            guard call.stack.reserve(8) else { return call.raiseOutOfMemory() }
            call.stack.push(Int(program.process))
            for end in [channel.0, output.0] {
                try Descriptor.setNonBlocking(end.number)
                // Theirs who asked from now on: `close` closes them.
                call.stack.push(Int(end.release()))
            }
            call.stack.push(Int(program.end.release()))
            return call.values(4)
        }
    }

    /// ended(pid): nothing while it runs; "exit" and the status, or "signal" and its number. Only once.
    private static func ended(_ call: Call) -> Int32 {
        guard let outcome = Program.outcome(of: fd(call, 1)) else { return call.nothing() }
        return call.answer(ValueProgram(outcome, unknown: ("unknown", 0)))
    }

    /// signal(pid, number): true, or nil and why not. A negative pid is a process group.
    private static func signal(_ call: Call) -> Int32 {
        guard let pid = call.integer(1).flatMap({ pid_t(exactly: $0) }), pid != 0, pid != -1 else {
            return call.raise("signal: a process is expected")
        }
        return kill(pid, fd(call, 2)) == 0 ? call.answer(true) : call.fail(errno: errno)
    }

    /// read(fd): what is there, "" at the end; nil and "EAGAIN" when nothing is.
    private static func read(_ call: Call) -> Int32 {
        withUnsafeTemporaryAllocation(byteCount: 65536, alignment: 1) { buffer in
            let count = Glibc.read(fd(call, 1), buffer.baseAddress, buffer.count)
            // A terminal whose last user is gone says EIO: to us that is its end.
            if count < 0, errno != EIO { return call.fail(errno: errno) }
            return call.answer(copyOf: UnsafeRawBufferPointer(start: buffer.baseAddress, count: max(0, count)))
        }
    }

    /// write(fd, text, first): how many bytes from the first on were taken; nil and why none were.
    private static func write(_ call: Call) -> Int32 {
        guard let bytes = call.bytes(2), let first = call.integer(3), first >= 1, first <= bytes.count else {
            return call.answer(0)
        }
        let count = Glibc.write(fd(call, 1), bytes.baseAddress.map { $0 + first - 1 }, bytes.count - first + 1)
        return count < 0 ? call.fail(errno: errno) : call.answer(count)
    }

    /// emit(text): writes all of it to the runner.
    private static func emit(_ call: Call) {
        if let bytes = call.bytes(1) { Descriptor.write(UnsafeRawBufferPointer(bytes), to: WorkerProcess.channel) }
    }

    /// mark(text): writes it where what tests print goes. Answers whether the standard output was closed, or something else.
    private static func mark(_ call: Call) -> Int32 {
        let wasLost = WorkerProcess.restoreOutput()
        if let bytes = call.bytes(1) { Descriptor.write(UnsafeRawBufferPointer(bytes), to: WorkerProcess.output) }
        return call.answer(wasLost)
    }

    /// programs(): the numbers of the processes that run for this one: those it has started, and those that these have left.
    private static func programs(_ call: Call) -> Int32 {
        var program = ValueProgram()
        program.table { table in for process in Program.running { table.element { $0.append(Int(process)) } } }
        return call.answer(program)
    }

    private static func close(_ call: Call) { if fd(call, 1) >= 0 { Descriptor.close(fd(call, 1)) } }

    /// open_fds(): a string with one byte for each of the first descriptors: 1 if it is open.
    private static func openDescriptors(_ call: Call) -> Int32 {
        Descriptor.open(below: 1024).map { $0 ? UInt8(1) : 0 }.withUnsafeBytes { call.answer(copyOf: $0) }
    }

    /// Asked for before anything could have left the directory in which the program was started.
    private static var program: String {
        link("/proc/self/exe") ?? Arguments.executable.flatMap { System.realPath(of: String(anyBytes: $0)) } ?? "rlhost"
    }

    private static func link(_ path: String) -> String? {
        Directory.target(ofLink: path).map { $0.withUnsafeBytes { String(anyBytes: $0) } }
    }

    // MARK: Files

    /// kind(path): "file", "directory", "other", or nil and why there is none.
    private static func kind(_ call: Call) -> Int32 {
        guard let path = bytes(call, 1) else { return call.answerNil() }
        return call.attempt { () throws(SystemError) in "\(try Directory.kind(of: path))" }
    }

    /// entries(path): the names in a directory, sorted.
    private static func entries(_ call: Call) -> Int32 {
        guard let path = bytes(call, 1) else { return call.answerNil() }
        return call.attempt { () throws(SystemError) in
            let entries = try Directory.entries(of: path)
            var program = ValueProgram()
            program.table { table in for entry in entries { table.element { $0.append(bytes: entry.name) } } }
            return program
        }
    }

    // MARK: Coverage

    /// count_lines(on, coroutine): from now on; nothing instead of true or false: a hook of its own gives way to that which counts.
    private static func countLines(_ call: Call) {
        LuaHost.countLines(call.stack.type(1) == .boolean ? call.boolean(1) : nil, call.stack, coroutine: 2)
    }

    /// take_lines(): counts by what happened, by path.
    private static func takeLines(_ call: Call) -> Int32 {
        let counts = LuaHost.takeLines()
        var program = ValueProgram()
        program.table { files in
            for (path, lines) in counts {
                files.field(path) { $0.table { for (line, count) in lines { $0.field(line) { $0.append(count) } } } }
            }
        }
        return call.answer(program)
    }
}
