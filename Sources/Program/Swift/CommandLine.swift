import LuaPrompt
import LuaRunLoops
import LuaTracing

/// The options on the command line: those of `lua`, and our own.
///
/// As in `lua`, all options are parsed before any of them takes effect.
struct Options {
    enum Step {
        case execute(String)
        case require(name: String, global: String)
        case warnings
        case print(String)
    }

    var steps: [Step] = []
    var isInteractive = false
    /// Set by `-v`, and by `-i`, which implies it.
    var showsLuaVersion = false
    var showsVersion = false
    var showsHelp = false
    var ignoresEnvironment = false
    var checksSyntax = false
    /// `--attach`: the given name, or "" without one.
    var attachName: String?
    /// `--no-attach`
    var forbidsAttaching = false
    /// The settings of the recording.
    var trace = TraceSettings()
    /// `--slow`: the threshold, in seconds, of the warnings that `-W` turns on.
    private var slow = 0.1
    /// The index of the script in the arguments; nil if there is none.
    var script: Int?
    /// Whether the script is standard input: "-", without "--" before it.
    var scriptIsInput = false

    enum Failure: Error {
        /// A mistake that `lua` reports, too: exit status 1.
        case usage(String)
        /// A mistake in one of our own options: exit status 64.
        case own(String)
    }

    private static let long = [
        "--help", "--version", "--attach", "--no-attach", "--trace=", "--trace-limit=", "--trace-on-error=",
        "--trace-slow=", "--trace-arguments", "--no-recorder", "--slow=",
    ]

    /// - Parameter arguments: The program's name first. Any bytes are allowed, since an argument need not be text.
    init(_ arguments: [String]) throws(Failure) {
        var index = 1
        scan: while index < arguments.count {
            let argument = arguments[index]
            let bytes = Array(argument.utf8)
            guard bytes.first == UInt8(ascii: "-") else { break }
            guard bytes.count > 1 else {
                scriptIsInput = true
                break
            }
            let extra = bytes.count > 2
            switch bytes[1] {
            case UInt8(ascii: "-"):
                guard extra else {
                    index += 1
                    break scan
                }
                try readLong(argument)
            case UInt8(ascii: "e"), UInt8(ascii: "l"), UInt8(ascii: "p"):
                try readStep(bytes[1], arguments, &index)
            case _ where extra: throw .usage("unrecognized option '\(argument)'")
            case UInt8(ascii: "i"):
                isInteractive = true
                showsLuaVersion = true
            case UInt8(ascii: "v"): showsLuaVersion = true
            case UInt8(ascii: "E"): ignoresEnvironment = true
            case UInt8(ascii: "W"):
                steps.append(.warnings)
                trace.warningAfter = slow
            case UInt8(ascii: "c"): checksSyntax = true
            case UInt8(ascii: "h"): showsHelp = true
            default: throw .usage("unrecognized option '\(argument)'")
            }
            index += 1
        }
        if index < arguments.count { script = index }
        if trace.warningAfter != nil { trace.warningAfter = slow }
    }

    private mutating func readLong(_ argument: String) throws(Failure) {
        switch argument {
        case "--help": showsHelp = true
        case "--version": showsVersion = true
        case "--attach": attachName = ""
        case "--no-attach": forbidsAttaching = true
        case _ where argument.hasPrefix("--attach="):
            let name = String(argument.unicodeScalars.dropFirst("--attach=".count))
            if let fault = Attach.fault(inName: name) { throw .own("--attach=NAME: the name \(fault)") }
            attachName = name
        case "--no-recorder": trace.isOff = true
        case "--trace-arguments": trace.recordsArguments = true
        case _ where argument.hasPrefix("--") && argument.utf8.contains(UInt8(ascii: "=")):
            try readTrace(argument)
        default: throw .own(Self.unknown(argument))
        }
    }

    /// `--name=value`
    private mutating func readTrace(_ argument: String) throws(Failure) {
        let parts = argument.unicodeScalars.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let (name, value) = (String(parts[0]), String(parts[1]))
        switch name {
        case "--trace":
            if let fault = TraceSettings.fault(inPath: value) {
                throw .own("--trace=FILE: \(fault), not as '\(value)'")
            }
            trace.file = value
        case "--trace-limit":
            guard let bytes = Self.bytes(value), bytes >= TraceSettings.leastLimit else {
                throw .own("--trace-limit=SIZE needs a size, 1M or more, such as 64M or 2G, not '\(value)'")
            }
            trace.limit = bytes
        case "--trace-on-error":
            guard !value.isEmpty else { throw .own("--trace-on-error=DIR needs a directory") }
            trace.errorDirectory = value
        case "--trace-slow": trace.slow = try Self.seconds(argument, name, value)
        case "--slow": slow = try Self.seconds(argument, name, value)
        default: throw .own(Self.unknown(argument))
        }
    }

    private static func seconds(_ argument: String, _ name: String, _ text: String) throws(Failure) -> Double {
        guard let seconds = Double(text), seconds > 0, seconds < 1e9 else {
            throw .own("\(name)=SECONDS needs a number of seconds, more than 0, not '\(text)'")
        }
        return seconds
    }

    /// Parses "64M", "2G", or a number of bytes.
    private static func bytes(_ text: String) -> Int? {
        let shift = text.hasSuffix("G") ? 30 : text.hasSuffix("M") ? 20 : text.hasSuffix("k") ? 10 : 0
        guard let number = Int(shift == 0 ? text : String(text.dropLast())), number >= 0, number <= .max >> shift else {
            return nil
        }
        return number << shift
    }

    private static func unknown(_ argument: String) -> String {
        let near = long.first { $0.hasPrefix(argument) || argument.hasPrefix($0) }
        let advice = near.map { " (did you mean '\($0)'?)" } ?? "; 'rlhost --help' lists them"
        return "unknown option '\(argument)'\(advice)"
    }

    /// Reads an option whose text follows in the same argument or is the next one.
    private mutating func readStep(_ letter: UInt8, _ arguments: [String], _ index: inout Int) throws(Failure) {
        let argument = arguments[index]
        var text = String(argument.unicodeScalars.dropFirst(2))
        if text.isEmpty {
            index += 1
            let next = index < arguments.count ? arguments[index] : nil
            if letter == UInt8(ascii: "p") {
                guard next != nil else { throw .own("'-p' needs an expression") }
            } else if next?.utf8.first == UInt8(ascii: "-") || next == nil {
                // As in `lua`: an argument that looks like an option is not taken as the text.
                throw .usage("'\(argument)' needs argument")
            }
            text = next ?? ""
        }
        switch letter {
        case UInt8(ascii: "e"): steps.append(.execute(text))
        case UInt8(ascii: "p"): steps.append(.print(text))
        default:
            let parts = text.unicodeScalars.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = parts.last.map { String($0) } ?? ""
            steps.append(.require(name: name, global: parts.count == 2 ? String(parts[0]) : name))
        }
    }

    /// Whether the options ask for more than reading a script from standard input.
    var hasWork: Bool {
        showsLuaVersion
            || steps.contains { step in
                switch step {
                case .execute, .print: true
                case .require, .warnings: false
                }
            }
    }

    static let usage = """
        usage: rlhost [options] [script [args]]
        Available options are:
          -e stat   execute string 'stat'
          -i        enter interactive mode after executing 'script'
          -l mod    require library 'mod' into global 'mod'
          -l g=mod  require library 'mod' into global 'g'
          -v        show version information
          -E        ignore environment variables
          -W        turn warnings on
          --        stop handling options
          -         stop handling options and execute stdin
        and beyond those of lua:
          -p expr   print the values of 'expr'
          -c        check the syntax of 'script' and of '-e' strings, run nothing
          -h        show this help and exit, as does '--help'
          --version show the version of rlhost and exit
          --attach, --attach=NAME
                    let 'rlhost attach' open a prompt in this process, by a name
          --no-attach
                    let nobody open one, which this user can otherwise
          --trace=FILE
                    record all that happens: .html to look at, .pftrace, .json
          --trace-limit=SIZE
                    the file's size at most (256M)
          --trace-on-error=DIR, --trace-slow=SECONDS
                    write down the last moments before an error that nobody
                    handles, and after a callback that takes longer
          --trace-arguments
                    record the arguments of programs, too, not only their names
          --slow=SECONDS
                    what callbacks may take before -W warns of them (0.1)
          --no-recorder
                    keep no record of the last moments
        and instead of a script:
          attach    list the processes that can be attached to
          attach PID|NAME [-e code]
                    open a prompt in a process, or run code in it
          top [PID|NAME]
                    show what the loops of a process do
          trace PID|NAME [-o FILE] [SECONDS]
                    record a process that runs
          trace FILE… -o FILE.html
                    make a page of recordings (.pftrace, .json)
          test      run tests; see 'rlhost test --help'

        """
}
