internal import CLinux
internal import CLuaSupport
internal import Glibc
internal import Lua
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
        .init("emit") { emit(Call($0)) },
        .init("close") { close(Call($0)) },
        .init("resize") { resize(Call($0)) },
        .init("open_fds") { openDescriptors(Call($0)) },
        .init("fd_target") { target(Call($0)) },
        .init("entries") { entries(Call($0)) },
        .init("kind") { kind(Call($0)) },
        .init("program") { program(Call($0)) },
        .init("is_terminal") { Call($0).answer(isatty(Int32(Call($0).integer(1) ?? 1)) != 0) },
        .init("real_clock") { Call($0).answer(Call.seconds(RunLoop.Instant.now.nanoseconds)) },
        .init("watch_files") { watchFiles(Call($0)) },
        .init("watch_directory") { watchDirectory(Call($0)) },
        .init("count_lines") { countLines(Call($0)) },
        .init("take_lines") { takeLines(Call($0)) },
    ]

    private static func bytes(_ call: Call, _ index: Int32) -> [CChar]? {
        call.bytes(index).map { $0.map { CChar(bitPattern: $0) } + [0] }
    }

    private static func fd(_ call: Call, _ index: Int32) -> Int32 {
        call.integer(index).flatMap { Int32(exactly: $0) } ?? -1
    }

    /// The strings of an array.
    private static func list(_ call: Call, _ index: Int32) -> [[CChar]]? {
        guard call.type(index) == LUA_TTABLE, lua_checkstack(call.thread, 4) != 0 else { return nil }
        var list: [[CChar]] = []
        for i in 0..<lua_rawlen(call.thread, index) {
            lua_rawgeti(call.thread, index, lua_Integer(i + 1))
            defer { cl_pop(call.thread, 1) }
            guard let bytes = bytes(call, -1) else { return nil }
            list.append(bytes)
        }
        return list
    }

    /// Calls `body` with a C array of C strings, NULL at the end.
    private static func withStrings<Result>(
        _ list: [[CChar]], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result
    ) -> Result {
        let strings = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(capacity: list.count + 1)
        for (i, bytes) in list.enumerated() {
            let copy = UnsafeMutablePointer<CChar>.allocate(capacity: bytes.count)
            copy.initialize(from: bytes, count: bytes.count)
            strings[i] = copy
        }
        strings[list.count] = nil
        defer {
            for i in list.indices { strings[i]?.deallocate() }
            strings.deallocate()
        }
        return body(strings)
    }

    /// start(arguments, environment or nil, directory or nil, kind, rows, columns): starts a program; kind is "pipes",
    /// "terminal" or "worker". Answers its number and our ends: of "pipes" its input, output and errors; of "terminal" its
    /// master; of "worker" a two-way channel, its descriptor 3, and its output; and at last a descriptor that tells its end.
    private static func start(_ call: Call) -> Int32 {
        guard let arguments = list(call, 1), !arguments.isEmpty, let kind = call.string(4) else {
            return call.raise("start: wrong arguments")
        }
        let environment = list(call, 2)
        let directory = bytes(call, 3)
        var ours: [Int32] = []
        var theirs: [Int32] = [-1, -1, -1, -1]
        var name = [CChar](repeating: 0, count: 128)
        func closeAll(_ descriptors: [Int32]) { for fd in Set(descriptors) where fd >= 0 { cl_close(fd: fd) } }
        func fail(_ number: Int32) -> Int32 {
            closeAll(ours + theirs)
            return call.fail(errno: number)
        }
        if kind == "terminal" {
            let master = cl_open_terminal(
                Int32(call.integer(5) ?? 24), Int32(call.integer(6) ?? 80), &name, name.count)
            guard master >= 0 else { return fail(-master) }
            ours.append(master)
        } else {
            let count = kind == "worker" ? 2 : 3
            for i in 0..<count {
                var ends: [Int32] = [-1, -1]
                let isChannel = kind == "worker" && i == 0
                let failure = cl_make_pipe(&ends, isChannel ? 1 : 0)
                guard failure == 0 else { return fail(failure) }
                let readsHere = isChannel || kind == "worker" || i > 0
                ours.append(readsHere ? ends[0] : ends[1])
                theirs[isChannel ? 3 : i] = readsHere ? ends[1] : ends[0]
            }
            if kind == "worker" { theirs[2] = theirs[1] }
        }
        var pid: Int32 = 0
        let failure = withStrings(arguments) { arguments in
            withStrings(environment ?? []) { variables in
                name.withUnsafeBufferPointer { name in
                    (directory ?? [0]).withUnsafeBufferPointer { path in
                        var program = cl_program()
                        program.arguments = arguments
                        program.environment = environment == nil ? nil : variables
                        program.directory = directory == nil ? nil : path.baseAddress
                        program.descriptors = (theirs[0], theirs[1], theirs[2], theirs[3])
                        program.terminal = kind == "terminal" ? name.baseAddress : nil
                        return cl_start_program(&program, &pid)
                    }
                }
            }
        }
        closeAll(theirs)
        theirs = []
        guard failure == 0 else { return fail(failure) }
        for fd in ours { cl_set_nonblocking(fd) }
        let end = cl_watch_program(pid)
        guard end >= 0 else {
            kill(pid, SIGKILL)
            return fail(-end)
        }
        guard lua_checkstack(call.thread, 8) != 0 else { return call.raiseOutOfMemory() }
        lua_pushinteger(call.thread, lua_Integer(pid))
        for fd in ours + [end] { lua_pushinteger(call.thread, lua_Integer(fd)) }
        return call.values(Int32(ours.count + 2))
    }

    /// ended(pid): nothing while it runs; "exit" and the status, or "signal" and its number. Only once.
    private static func ended(_ call: Call) -> Int32 {
        var number: Int32 = 0
        let how = cl_program_ended(fd(call, 1), &number)
        guard how != 0 else { return call.nothing() }
        var program = ValueProgram()
        program.append(how == 2 ? "signal" : how == 1 ? "exit" : "unknown")
        program.append(Int(number))
        return call.answer(program)
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
        let host = call.luaHost.host
        cl_reset(host)
        return withUnsafeTemporaryAllocation(byteCount: 65536, alignment: 1) { buffer in
            let count = Glibc.read(fd(call, 1), buffer.baseAddress, buffer.count)
            // A terminal whose last user is gone says EIO: to us that is its end.
            if count < 0, errno != EIO { return call.fail(errno: errno) }
            return cl_write(host, buffer.baseAddress, max(0, count)) != 0
                ? CL_STRING.rawValue : call.raiseOutOfMemory()
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
    private static func emit(_ call: Call) -> Int32 {
        if let bytes = call.bytes(1) { linux_write_all(3, bytes.baseAddress, bytes.count) }
        return call.nothing()
    }

    private static func close(_ call: Call) -> Int32 {
        if fd(call, 1) >= 0 { cl_close(fd: fd(call, 1)) }
        return call.nothing()
    }

    private static func cl_close(fd: Int32) { Glibc.close(fd) }

    private static func resize(_ call: Call) -> Int32 {
        let failure = cl_resize_terminal(fd(call, 1), fd(call, 2), fd(call, 3))
        return failure == 0 ? call.answer(true) : call.fail(errno: failure)
    }

    /// open_fds(): a string with one byte for each of the first descriptors: 1 if it is open.
    private static func openDescriptors(_ call: Call) -> Int32 {
        let host = call.luaHost.host
        cl_reset(host)
        return withUnsafeTemporaryAllocation(byteCount: 1024, alignment: 1) { buffer in
            cl_open_descriptors(buffer.baseAddress?.assumingMemoryBound(to: UInt8.self), 1024)
            return cl_write(host, buffer.baseAddress, 1024) != 0 ? CL_STRING.rawValue : call.raiseOutOfMemory()
        }
    }

    /// fd_target(fd): what /proc says it is.
    private static func target(_ call: Call) -> Int32 {
        call.answer(link("/proc/self/fd/\(fd(call, 1))"))
    }

    /// program(): the path of this program.
    private static func program(_ call: Call) -> Int32 {
        call.answer(link("/proc/self/exe") ?? "rlhost")
    }

    private static func link(_ path: String) -> String? {
        var buffer = [CChar](repeating: 0, count: 4096)
        let count = readlink(path, &buffer, buffer.count)
        return count < 0 ? nil : String(decoding: buffer[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    // MARK: Files

    /// kind(path): "file", "directory", "other", or nil and why there is none.
    private static func kind(_ call: Call) -> Int32 {
        guard let path = bytes(call, 1) else { return call.answerNil() }
        var status = stat()
        guard stat(path, &status) == 0 else { return call.fail(errno: errno) }
        switch status.st_mode & S_IFMT {
        case S_IFREG: return call.answer("file")
        case S_IFDIR: return call.answer("directory")
        default: return call.answer("other")
        }
    }

    /// entries(path): the names in a directory, sorted.
    private static func entries(_ call: Call) -> Int32 {
        guard let path = bytes(call, 1), let directory = opendir(path) else { return call.fail(errno: errno) }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
        }
        var program = ValueProgram()
        program.table { table in for name in names.sorted() { table.element { $0.append(name) } } }
        return call.answer(program)
    }

    /// watch_files(): a descriptor that becomes readable when something changes in a directory that is watched.
    private static func watchFiles(_ call: Call) -> Int32 {
        let fd = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
        return fd < 0 ? call.fail(errno: errno) : call.answer(Int(fd))
    }

    /// watch_directory(fd, path): the number of the watch.
    private static func watchDirectory(_ call: Call) -> Int32 {
        guard let path = bytes(call, 2) else { return call.answerNil() }
        let events = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE
        let number = inotify_add_watch(fd(call, 1), path, UInt32(events))
        return number < 0 ? call.fail(errno: errno) : call.answer(Int(number))
    }

    // MARK: Coverage

    private static func countLines(_ call: Call) -> Int32 {
        cl_count_lines(call.luaHost.host, call.boolean(1) ? 1 : 0)
        return call.nothing()
    }

    /// take_lines(): counts by line by path.
    private static func takeLines(_ call: Call) -> Int32 {
        var counts: [String: [Int: Int]] = [:]
        withUnsafeMutablePointer(to: &counts) { counts in
            cl_take_lines(counts) { context, source, line, count in
                guard let context, let source else { return }
                let counts = context.assumingMemoryBound(to: [String: [Int: Int]].self)
                counts.pointee[String(cString: source), default: [:]][Int(line), default: 0] += Int(count)
            }
        }
        var program = ValueProgram()
        program.table { files in
            for (path, lines) in counts {
                files.field(path) { $0.table { for (line, count) in lines { $0.field(line) { $0.append(count) } } } }
            }
        }
        return call.answer(program)
    }
}
