internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// For the Lua part of the runner: the operating system. The arguments come from the runner, so they are checked only
/// as far as memory safety needs.
enum VirtualTimeSystem {
    static let functions: [Library.Entry] = [
        .init("start") { start(Call($0)) },
        .init("ended") { ended(Call($0)) },
        .init("signal") { signal(Call($0)) },
        .init("read") { read(Call($0)) },
        .init("write") { write(Call($0)) },
        .init("mark") { mark(Call($0)) },
        .init("programs") { programs(Call($0)) },
        // note_server(pid, on): a server works in real time, and does not hold the clock.
        .init("note_server") { Call($0).answer(Program.note(server: fd(Call($0), 1), Call($0).stack.boolean(2))) },
        .init("emit") { Call.act($0, emit) },
        .init("close") { Call.act($0, close) },
        .init("open_fds") { openDescriptors(Call($0)) },
        // fd_target(fd): returns the target of the descriptor's link in /proc.
        .init("fd_target") { Call.answer($0) { link("/proc/self/fd/\(fd($0, 1))") } },
        .init("entries") { entries(Call($0)) },
        .init("kind") { kind(Call($0)) },
        // program(): returns the path of this program.
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

    /// start(arguments): starts a worker. Returns its process id, a two-way channel, which is its descriptor 3, a
    /// descriptor of its output, and one that becomes readable at its end.
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
                // The caller owns the descriptors from now on: `close` closes them.
                call.stack.push(Int(end.release()))
            }
            call.stack.push(Int(program.end.release()))
            return call.values(4)
        }
    }

    /// ended(pid): returns nothing while the process runs; then once "exit" and the status, or "signal" and its number.
    private static func ended(_ call: Call) -> Int32 {
        guard let outcome = Program.outcome(of: fd(call, 1)) else { return call.nothing() }
        return call.answer(ValueProgram(outcome, unknown: ("unknown", 0)))
    }

    /// signal(pid, number): returns true, or nil and an error. A negative pid is a process group.
    private static func signal(_ call: Call) -> Int32 {
        guard let pid = call.integer(1).flatMap({ pid_t(exactly: $0) }), pid != 0, pid != -1 else {
            return call.raise("signal: a process is expected")
        }
        return kill(pid, fd(call, 2)) == 0 ? call.answer(true) : call.fail(errno: errno)
    }

    /// read(fd): returns the bytes that are available, or "" at the end; nil and "EAGAIN" if there are none.
    private static func read(_ call: Call) -> Int32 {
        withUnsafeTemporaryAllocation(byteCount: 65536, alignment: 1) { buffer in
            let count = Glibc.read(fd(call, 1), buffer.baseAddress, buffer.count)
            // Reading a terminal that no program uses any more fails with EIO, which counts as its end.
            if count < 0, errno != EIO { return call.fail(errno: errno) }
            return call.answer(copyOf: UnsafeRawBufferPointer(start: buffer.baseAddress, count: max(0, count)))
        }
    }

    /// write(fd, text, first): returns how many bytes from the first on were written; or nil and an error.
    private static func write(_ call: Call) -> Int32 {
        guard let bytes = call.bytes(2), let first = call.integer(3), first >= 1, first <= bytes.count else {
            return call.answer(0)
        }
        let count = Glibc.write(fd(call, 1), bytes.baseAddress.map { $0 + first - 1 }, bytes.count - first + 1)
        return count < 0 ? call.fail(errno: errno) : call.answer(count)
    }

    /// emit(text): writes the whole text to the runner.
    private static func emit(_ call: Call) {
        if let bytes = call.bytes(1) { Descriptor.write(UnsafeRawBufferPointer(bytes), to: WorkerProcess.channel) }
    }

    /// mark(text): writes the text to the output of the tests. Returns whether the standard output was closed, or was
    /// another file.
    private static func mark(_ call: Call) -> Int32 {
        let wasLost = WorkerProcess.restoreOutput()
        if let bytes = call.bytes(1) { Descriptor.write(UnsafeRawBufferPointer(bytes), to: WorkerProcess.output) }
        return call.answer(wasLost)
    }

    /// programs(): returns the ids of the processes that this process has started, and of the processes that those have
    /// left behind.
    private static func programs(_ call: Call) -> Int32 {
        var program = ValueProgram()
        program.table { table in for process in Program.running { table.element { $0.append(Int(process)) } } }
        return call.answer(program)
    }

    private static func close(_ call: Call) { if fd(call, 1) >= 0 { Descriptor.close(fd(call, 1)) } }

    /// open_fds(): returns a string with one byte for each of the first 1024 descriptors: 1 if it is open.
    private static func openDescriptors(_ call: Call) -> Int32 {
        Descriptor.open(below: 1024).map { $0 ? UInt8(1) : 0 }.withUnsafeBytes { call.answer(copyOf: $0) }
    }

    /// Read before a test can change the directory in which the program was started.
    private static var program: String {
        link("/proc/self/exe") ?? Arguments.executable.flatMap { System.realPath(of: String(anyBytes: $0)) } ?? "rlhost"
    }

    private static func link(_ path: String) -> String? {
        Directory.target(ofLink: path).map { $0.withUnsafeBytes { String(anyBytes: $0) } }
    }

    // MARK: Files

    /// kind(path): returns "file", "directory" or "other", or nil and an error.
    private static func kind(_ call: Call) -> Int32 {
        guard let path = bytes(call, 1) else { return call.answerNil() }
        return call.attempt { () throws(SystemError) in "\(try Directory.kind(of: path))" }
    }

    /// entries(path): returns the names in a directory, sorted.
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

    /// count_lines(on, coroutine): starts or stops counting. With nil, the counting hook replaces the hook of the
    /// coroutine.
    private static func countLines(_ call: Call) {
        LuaHost.countLines(call.stack.type(1) == .boolean ? call.boolean(1) : nil, call.stack, coroutine: 2)
    }

    /// take_lines(): returns the counts for each path, by event.
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
