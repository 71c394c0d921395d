import Linux
import Lua
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
    /// Set by `-v`, and by `-i`, which implies `-v`.
    var showsLuaVersion = false
    /// The text of `--help`, `--version` or `--completions`, which is shown, and nothing is run.
    var shownText: String?
    var ignoresEnvironment = false
    var checksSyntax = false
    /// `--attach`: the given name, or "" without one.
    var attachName: String?
    /// `--watch`
    var watches = false
    /// `--no-attach`
    var forbidsAttaching = false
    /// The settings of the recording.
    var trace = TraceSettings()
    /// `--slow`: the threshold, in seconds, of the warnings that `-W` turns on.
    private var slow = 0.1
    /// `--memory`, `--cpu` and `--callback-limit`
    var memory: Int?
    var processorTime: Double?
    var callbackLimit: Double?
    /// `--sandbox` and `--sandbox=best-effort`; nil without it
    var sandbox: SandboxMode?
    /// `--allow-…`
    var allowances: Sandbox.Description?
    /// The index of the script in the arguments; nil if there is none.
    var script: Int?
    /// Whether the script is standard input: "-", without "--" before it.
    var scriptIsInput = false

    enum SandboxMode { case strict, bestEffort }

    enum Failure: Error {
        /// A mistake that `lua` reports, too: exit status 1.
        case usage(String)
        /// A mistake in one of our own options: exit status 64.
        case own(String)
    }

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
            case UInt8(ascii: "h"): shownText = OptionTable.usage
            default: throw .usage("unrecognized option '\(argument)'")
            }
            index += 1
        }
        if index < arguments.count { script = index }
        if trace.warningAfter != nil { trace.warningAfter = slow }
        guard shownText == nil else { return }
        if sandbox == nil, let kind = allowances?.first { throw .own("--allow-\(kind) is for --sandbox") }
        let isTest = script.map { arguments[$0] == "test" && arguments[$0 - 1] != "--" } ?? false
        if sandbox != nil, watches || isTest { throw .own("--sandbox runs a script; it is not for --watch and 'test'") }
    }

    /// `--allow-KIND` and `--allow-KIND=VALUE`. Returns false for another option.
    private mutating func readAllowance(_ argument: String) -> Bool {
        // Do not use `hasPrefix`: it compares characters, and so links large Unicode tables into the program.
        guard argument.utf8.starts(with: "--allow-".utf8) else { return false }
        let description = allowances ?? Sandbox.Description()
        allowances = description
        return argument.withAnyCString { description.allow(option: $0) }
    }

    private mutating func readLong(_ argument: String) throws(Failure) {
        if readAllowance(argument) { return }
        switch argument {
        case "--help": shownText = OptionTable.usage
        case "--version": shownText = Program.banner + "\n"
        case "--attach": attachName = ""
        case "--no-attach": forbidsAttaching = true
        case "--watch": watches = true
        case _ where argument.hasPrefix("--attach="):
            let name = String(argument.unicodeScalars.dropFirst("--attach=".count))
            if let fault = Attach.fault(inName: name) { throw .own("--attach=NAME: the name \(fault)") }
            attachName = name
        case "--sandbox": sandbox = sandbox ?? .strict
        case "--sandbox=best-effort": sandbox = .bestEffort
        case "--no-recorder": trace.isOff = true
        case "--trace-arguments": trace.recordsArguments = true
        case _ where argument.hasPrefix("--") && argument.utf8.contains(UInt8(ascii: "=")):
            try readTrace(argument)
        default: throw .own(OptionTable.unknown(argument))
        }
    }

    /// `--name=value`
    private mutating func readTrace(_ argument: String) throws(Failure) {
        let parts = argument.unicodeScalars.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let (name, value) = (String(parts[0]), String(parts[1]))
        switch name {
        case "--completions":
            guard let script = OptionTable.completions(for: value) else {
                throw .own("--completions=SHELL: the shells are bash, zsh and fish, not '\(value)'")
            }
            shownText = script
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
        case "--memory":
            guard let bytes = Self.bytes(value), bytes >= LuaLimits.leastMemory else {
                let least = "\(LuaLimits.leastMemory >> 10)k"
                throw .own("--memory=SIZE needs a size, \(least) or more, such as 64M, not '\(value)'")
            }
            memory = bytes
        case "--cpu": processorTime = try Self.limit(name, value)
        case "--callback-limit": callbackLimit = try Self.limit(name, value)
        default: throw .own(OptionTable.unknown(argument))
        }
    }

    private static func seconds(_ argument: String, _ name: String, _ text: String) throws(Failure) -> Double {
        guard let seconds = Double(text), seconds > 0, seconds < 1e9 else {
            throw .own("\(name)=SECONDS needs a number of seconds, more than 0, not '\(text)'")
        }
        return seconds
    }

    private static func limit(_ name: String, _ text: String) throws(Failure) -> Double {
        guard let seconds = Double(text), seconds >= LuaLimits.leastTime, seconds < 1e9 else {
            throw .own("\(name)=SECONDS needs a number of seconds, \(LuaLimits.leastTime) or more, not '\(text)'")
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

    /// Reads an option whose text follows in the same argument, or is the next argument.
    private mutating func readStep(_ letter: UInt8, _ arguments: [String], _ index: inout Int) throws(Failure) {
        let argument = arguments[index]
        var text = String(argument.unicodeScalars.dropFirst(2))
        if text.isEmpty {
            index += 1
            let next = index < arguments.count ? arguments[index] : nil
            if letter == UInt8(ascii: "p") {
                guard next != nil else { throw .own("'-p' needs an expression") }
            } else if next?.utf8.first == UInt8(ascii: "-") || next == nil {
                // As in `lua`, the next argument is not used as the option's text if it looks like an option.
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
}
