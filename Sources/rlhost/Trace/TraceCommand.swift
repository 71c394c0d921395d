import LuaRunLoops
import Tracing

/// `rlhost trace`: makes a page, or another form, of recordings. See docs/seeing.md.
enum TraceCommand {
    struct Options {
        var files: [String] = []
        var output: String?
        var showsHelp = false

        /// A process that runs, instead of files.
        var process: TraceProcess?

        /// Says what is wrong, as the end of "trace: …".
        struct Misuse: Error { let message: String }

        init(_ arguments: some Collection<String>) throws(Misuse) {
            var rest = arguments[...]
            while let argument = rest.popFirst() {
                switch argument {
                case "-h", "--help": showsHelp = true
                case "-o":
                    guard let path = rest.popFirst() else { throw .init(message: "'-o' needs a file") }
                    output = path
                case _ where argument.hasPrefix("-o"): output = String(argument.unicodeScalars.dropFirst(2))
                case _ where argument.hasPrefix("-"):
                    throw .init(message: "unknown option '\(argument)'; 'rlhost trace --help' lists them")
                default: files.append(argument)
                }
            }
            guard !showsHelp else { return }
            guard !files.isEmpty else {
                throw .init(
                    message:
                        "it needs a process or a recording: rlhost trace PID, rlhost trace FILE.pftrace -o FILE.html")
            }
            if let process = try running() {
                self.process = process
                return
            }
            guard let output else {
                throw .init(message: "it needs a file to write: rlhost trace \(files[0]) -o FILE.html")
            }
            guard Recording.Format(path: output) != nil else {
                throw .init(message: "\(Recording.Format.advice), not as '\(output)'")
            }
            guard !files.contains(output) else {
                throw .init(message: "'\(output)' cannot be read and written at once; name another file with -o")
            }
        }

        /// What is no recording's name is a process's.
        private func running() throws(Misuse) -> TraceProcess? {
            guard let first = files.first, Recording.Format(path: first) == nil, !first.utf8.contains(UInt8(ascii: "/"))
            else { return nil }
            var process = TraceProcess(target: first, output: output)
            if files.count > 1 {
                guard files.count == 2, let seconds = Double(files[1]), seconds > 0, seconds < 1e6 else {
                    throw .init(message: "behind the process there may be a number of seconds, not '\(files[1])'")
                }
                process.seconds = seconds
            }
            if let output, Recording.Format(path: output) == nil {
                throw .init(message: "\(Recording.Format.advice), not as '\(output)'")
            }
            return process
        }
    }

    static let usage = """
        usage: rlhost trace PID|NAME [-o FILE]              write down the last moments of a process that runs
               rlhost trace PID|NAME [-o FILE] SECONDS      record what happens there in the next seconds
               rlhost trace FILE… -o FILE     make a page (.html), or another form (.pftrace, .json), of recordings
        Recordings are files that end in .pftrace (Perfetto) or .json (Chrome's trace events). Several of them, of
        processes that talk with each other, make one page: arrows lead from one to another.
        Processes are those that 'rlhost attach' lists, and what forbids attaching forbids this; without -o the file is
        NAME-PID.html in the current directory.
        exit status: 0 all went well, 1 a file cannot be read or written, 64 wrong use, 69 the process cannot be
        attached to, does not answer or has ended

        """

    /// - Parameter arguments: all of the program's.
    static func run(_ arguments: [String]) -> Int32 {
        let options: Options
        do throws(Options.Misuse) {
            options = try Options(arguments.dropFirst(2))
        } catch {
            Program.report("trace: \(error.message)")
            return 64
        }
        if !options.showsHelp, let process = options.process { return process.run() }
        guard !options.showsHelp, let output = options.output else {
            Output.write(usage, to: 1)
            return 0
        }
        do throws(Recording.Conversion.Problem) {
            try Recording.Conversion.convert(options.files, to: output)
        } catch {
            Program.report("trace: \(error)")
            return 1
        }
        return 0
    }
}
