import LuaRunLoops
import Tracing

/// `rlhost trace`: converts recordings to a page or to another format. See docs/seeing.md.
enum TraceCommand {
    struct Options {
        var files: [String] = []
        var output: String?
        var showsHelp = false

        /// A running process; nil if files are given.
        var process: TraceProcess?
        /// Processes on a message bus.
        var bus: TraceBus?

        init(_ arguments: ArraySlice<String>) throws(Program.Refusal) {
            var rest = arguments
            var settings: [String: String] = [:]
            while let argument = rest.popFirst() {
                switch argument {
                case "-h", "--help": showsHelp = true
                case "-o":
                    guard let path = rest.popFirst() else { throw .misuse("'-o' needs a file") }
                    output = path
                case _ where argument.hasPrefix("-o"): output = String(argument.unicodeScalars.dropFirst(2))
                case "--via", "--credentials", "--ca":
                    guard let value = rest.popFirst() else {
                        throw .misuse("'\(argument)' needs \(argument == "--via" ? "an address" : "a file")")
                    }
                    settings[argument] = value
                case _ where argument.hasPrefix("-"):
                    throw .misuse(OptionTable.unknown(argument, of: "trace"))
                default: files.append(argument)
                }
            }
            guard !showsHelp else { return }
            if let output, Recording.Format(path: output) == nil {
                throw .misuse("\(Recording.Format.advice), not as '\(output)'")
            }
            if let url = settings["--via"] {
                bus = try TraceBus(
                    url, names: files, output: output, credentials: settings["--credentials"], ca: settings["--ca"])
                return
            }
            if let option = settings.keys.first { throw .misuse("'\(option)' needs '--via', the address of a server") }
            guard !files.isEmpty else {
                throw .misuse(
                    "it needs a process or a recording: rlhost trace PID, rlhost trace FILE.pftrace -o FILE.html")
            }
            process = try running()
            guard process == nil else { return }
            guard let output else {
                throw .misuse("it needs a file to write: rlhost trace \(files[0]) -o FILE.html")
            }
            guard !files.contains(output) else {
                throw .misuse("'\(output)' cannot be read and written at once; name another file with -o")
            }
        }

        /// An argument that is not the name of a recording is the name of a process.
        private func running() throws(Program.Refusal) -> TraceProcess? {
            guard let first = files.first, Recording.Format(path: first) == nil, !first.utf8.contains(UInt8(ascii: "/"))
            else { return nil }
            var process = TraceProcess(target: first, output: output)
            if files.count > 1 {
                guard files.count == 2, let seconds = Double(files[1]), seconds > 0, seconds < 1e6 else {
                    throw .misuse("after the process, only a number of seconds is allowed, not '\(files[1])'")
                }
                process.seconds = seconds
            }
            return process
        }
    }

    static let usage = """
        usage: rlhost trace PID|NAME [-o FILE]              write a recording of the last moments of a running process
               rlhost trace PID|NAME [-o FILE] SECONDS      record that process for this number of seconds
               rlhost trace FILE… -o FILE     make a page (.html), or another format (.pftrace, .json), from recordings
               rlhost trace --via URL [--credentials FILE] [--ca FILE] NAME… [SECONDS] -o FILE
                                              make one page of processes on other machines
        Recordings are files that end in .pftrace (Perfetto) or .json (Chrome's trace events). Several recordings, of
        processes that send messages to each other, make one page, with an arrow for each message.
        A process is found as by 'rlhost attach', and must allow attaching. Without -o the file is NAME-PID.html in the
        current directory.
        With --via, URL is the address of a NATS server, such as nats://a:4222, and the processes are those whose bus has
        this NAME, or runs at HOST:PID, and exposes "trace". --credentials is a user's .creds file, --ca a file of
        certificates that confirm the server's. Without SECONDS, the page has their last moments.
        exit status: 0 all went well, 1 a file cannot be read or written, or one of several processes has not answered or
        has ended, 64 wrong use, 69 the process cannot be attached to, does not answer or has ended

        """

    static func run(_ arguments: ArraySlice<String>) throws(Program.Refusal) -> Int32 {
        let options = try Options(arguments)
        if !options.showsHelp, let process = options.process { return try process.run() }
        if !options.showsHelp, let bus = options.bus { return bus.run() }
        guard !options.showsHelp, let output = options.output else {
            Output.write(usage, to: 1)
            return 0
        }
        do throws(Recording.Conversion.Problem) {
            try Recording.Conversion.convert(options.files, to: output)
            return 0
        } catch {
            throw .init(message: error.description, status: 1)
        }
    }
}
