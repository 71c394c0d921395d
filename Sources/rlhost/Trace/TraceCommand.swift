import LuaRunLoops
import Tracing

/// `rlhost trace`: makes a page, or another form, of recordings. See docs/seeing.md.
enum TraceCommand {
    struct Options {
        var files: [String] = []
        var output: String?
        var showsHelp = false

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
                throw .init(message: "it needs a recording: rlhost trace FILE.pftrace -o FILE.html")
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
    }

    static let usage = """
        usage: rlhost trace FILE… -o FILE     make a page (.html), or another form (.pftrace, .json), of recordings
        Recordings are files that end in .pftrace (Perfetto) or .json (Chrome's trace events). Several of them, of
        processes that talk with each other, make one page: arrows lead from one to another.
        exit status: 0 all went well, 1 a file cannot be read or written, 64 wrong use

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
