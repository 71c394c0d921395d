package import Foundation

extension Binary {
    /// A running program, with functions to write to it, to signal it, and to wait for its output.
    ///
    ///     let process = try Binary.Process(["server.lua"])
    ///     #expect(process.waitForOutput("ready"))
    ///     process.signal(SIGTERM)
    ///     #expect(process.finish().status == 143)
    package final class Process {
        package let pid: pid_t
        private var result = Result()
        private var input: Int32
        private var output: Int32
        private var errors: Int32
        private var unwritten: ArraySlice<UInt8> = []
        private var closesInput = false
        private var isReaped = false
        private let start = Process.now

        package convenience init(_ arguments: [String], environment: [String: String] = [:], directory: String? = nil)
            throws
        {
            try self.init(
                arguments.map { Array($0.utf8) }, environment: environment.map { Array("\($0)=\($1)".utf8) },
                directory: directory)
        }

        package init(
            _ arguments: [[UInt8]], environment: [[UInt8]] = [], directory: String? = nil,
            program: String = Binary.path, name: String = "rlhost", hasInput: Bool = true
        ) throws {
            var inherited: [[UInt8]] = []
            for variable in ["PATH", "HOME", "ASAN_OPTIONS", "TSAN_OPTIONS"] {
                guard let value = getenv(variable) else { continue }
                let bytes = UnsafeRawBufferPointer(start: value, count: strlen(value))
                inherited.append(Array("\(variable)=".utf8) + bytes)
            }
            // A child that another test starts before the pipes are marked would inherit them and keep them open.
            Self.starting.lock()
            defer { Self.starting.unlock() }
            let pipes = try (0..<3).map { _ in try Self.pipe() }
            var actions = posix_spawn_file_actions_t()
            posix_spawn_file_actions_init(&actions)
            defer { posix_spawn_file_actions_destroy(&actions) }
            if hasInput {
                posix_spawn_file_actions_adddup2(&actions, pipes[0].read, 0)
            } else {
                posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
            }
            posix_spawn_file_actions_adddup2(&actions, pipes[1].write, 1)
            posix_spawn_file_actions_adddup2(&actions, pipes[2].write, 2)
            if let directory { try Self.changeDirectory(directory, in: &actions) }
            var attributes = posix_spawnattr_t()
            posix_spawnattr_init(&attributes)
            defer { posix_spawnattr_destroy(&attributes) }
            // As when started by a shell, no signal is blocked or ignored. The program gets its own process group, so
            // that its children can be ended as well.
            var signals = sigset_t()
            sigemptyset(&signals)
            posix_spawnattr_setsigmask(&attributes, &signals)
            sigfillset(&signals)
            posix_spawnattr_setsigdefault(&attributes, &signals)
            posix_spawnattr_setflags(
                &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP))

            var child: pid_t = 0
            let code = Self.withStrings([Array(name.utf8)] + arguments) { arguments in
                Self.withStrings(inherited + environment) { environment in
                    posix_spawn(&child, program, &actions, &attributes, arguments, environment)
                }
            }
            close(pipes[0].read)
            close(pipes[1].write)
            close(pipes[2].write)
            (pid, input, output, errors) = (child, pipes[0].write, pipes[1].read, pipes[2].read)
            guard code == 0 else {
                isReaped = true
                throw Failure(description: "cannot run \(program): \(String(cString: strerror(code)))")
            }
            for fd in [input, output, errors] { _ = fcntl(fd, F_SETFL, O_NONBLOCK) }
        }

        deinit {
            if !isReaped {
                kill(-pid, SIGKILL)
                var status: Int32 = 0
                waitpid(pid, &status, 0)
            }
            for fd in [input, output, errors] where fd >= 0 { close(fd) }
        }

        /// The output until now.
        package var outputText: String { result.output }
        package var errorText: String { result.errors }

        /// Writes to the program's standard input; the bytes for which the pipe has no room yet are written during the
        /// next wait.
        package func write(_ bytes: [UInt8]) { unwritten += bytes[...] }
        package func write(_ text: String) { write(Array(text.utf8)) }
        /// Closes the program's standard input after all written bytes.
        package func closeInput() { closesInput = true }

        package func signal(_ number: Int32) { kill(pid, number) }

        /// Waits until the program's standard output contains a text. Returns false if the program ends, or the time is
        /// over, before the text has come.
        package func waitForOutput(_ text: String, timeout: Double = 30) -> Bool {
            pump(until: Self.now + timeout) { result.output.contains(text) }
            return result.output.contains(text)
        }

        /// Waits until the program's standard error contains a text.
        package func waitForErrors(_ text: String, timeout: Double = 30) -> Bool {
            pump(until: Self.now + timeout) { result.errors.contains(text) }
            return result.errors.contains(text)
        }

        /// Reads until both outputs of the program are closed, and waits for its end.
        package func finish(timeout: Double = 60) -> Result {
            let deadline = Self.now + timeout
            pump(until: deadline) { false }
            var status: Int32 = 0
            while TestMeter.waitpid(pid, &status, WNOHANG) == 0 {
                if Self.now >= deadline {
                    result.timedOut = true
                    kill(-pid, SIGKILL)
                    TestMeter.waitpid(pid, &status, 0)
                    break
                }
                // The program has closed its outputs, and only has to exit.
                usleep(200)
            }
            isReaped = true
            result.seconds = Self.now - start
            if status & 0x7f == 0 {
                result.status = (status >> 8) & 0xff
            } else {
                result.signal = status & 0x7f
                result.status = 128 + (status & 0x7f)
            }
            return result
        }

        // MARK: Pipes

        private static var now: Double { Double(DispatchTime.now().uptimeNanoseconds) / 1e9 }

        private func pump(until deadline: Double, isDone: () -> Bool) {
            while output >= 0 || errors >= 0 {
                if isDone() { return }
                if unwritten.isEmpty, closesInput, input >= 0 {
                    close(input)
                    input = -1
                }
                let left = deadline - Self.now
                guard left > 0 else { return }
                var polled = [
                    pollfd(fd: output, events: Int16(POLLIN), revents: 0),
                    pollfd(fd: errors, events: Int16(POLLIN), revents: 0),
                    pollfd(fd: unwritten.isEmpty ? -1 : input, events: Int16(POLLOUT), revents: 0),
                ]
                poll(&polled, 3, Int32(min(left * 1000 + 1, 1e6)))
                if polled[0].revents != 0 { read(&output, into: \.outputBytes) }
                if polled[1].revents != 0 { read(&errors, into: \.errorBytes) }
                if polled[2].revents != 0 { feed() }
            }
        }

        private func read(_ fd: inout Int32, into bytes: WritableKeyPath<Result, [UInt8]>) {
            var buffer = [UInt8](repeating: 0, count: 65536)
            let count = Foundation.read(fd, &buffer, buffer.count)
            if count > 0 {
                result[keyPath: bytes] += buffer[..<count]
            } else if count == 0 || (errno != EAGAIN && errno != EINTR) {
                close(fd)
                fd = -1
            }
        }

        private func feed() {
            _ = Self.ignoresBrokenPipes
            let count = unwritten.withUnsafeBytes { Foundation.write(input, $0.baseAddress, $0.count) }
            if count > 0 {
                unwritten = unwritten.dropFirst(count)
            } else if errno != EAGAIN && errno != EINTR {
                unwritten = []  // the program has closed its input
            }
        }

        /// Without this, a program that ends before it has read its input would end the tests.
        private static let ignoresBrokenPipes: Void = { _ = Foundation.signal(SIGPIPE, SIG_IGN) }()

        private static let starting = NSLock()

        private static func pipe() throws -> (read: Int32, write: Int32) {
            var fds: [Int32] = [-1, -1]
            guard Foundation.pipe(&fds) == 0 else {
                throw Failure(description: "pipe: \(String(cString: strerror(errno)))")
            }
            for fd in fds { _ = fcntl(fd, F_SETFD, FD_CLOEXEC) }
            return (fds[0], fds[1])
        }

        // The C library has this function, but Swift's module of the C library does not export it.
        private static func changeDirectory(
            _ path: String, in actions: inout posix_spawn_file_actions_t
        ) throws {
            typealias AddChdir =
                @convention(c) (
                    UnsafeMutablePointer<posix_spawn_file_actions_t>, UnsafePointer<CChar>
                ) -> Int32
            guard let symbol = dlsym(nil, "posix_spawn_file_actions_addchdir_np") else {
                throw Failure(description: "this C library cannot start a program in another directory")
            }
            _ = unsafeBitCast(symbol, to: AddChdir.self)(&actions, path)
        }

        private static func withStrings<T>(
            _ strings: [[UInt8]], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> T
        ) -> T {
            var pointers: [UnsafeMutablePointer<CChar>?] = strings.map { bytes in
                let copy = UnsafeMutablePointer<CChar>.allocate(capacity: bytes.count + 1)
                for (i, byte) in bytes.enumerated() { copy[i] = CChar(bitPattern: byte) }
                copy[bytes.count] = 0
                return copy
            }
            defer { for case let pointer? in pointers { pointer.deallocate() } }
            pointers.append(nil)
            return pointers.withUnsafeMutableBufferPointer { buffer in
                guard let base = buffer.baseAddress else { preconditionFailure("there is at least the final nil") }
                return body(base)
            }
        }
    }
}
