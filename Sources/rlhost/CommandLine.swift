/// What the arguments ask for: those of `lua`, and our own.
struct Options {
    enum Step {
        case execute(String)
        case require(name: String, global: String)
        case warnings
        case print(String)
    }

    var steps: [Step] = []
    var interactive = false
    var version = false
    var help = false
    var ignoresEnvironment = false
    var checksSyntax = false
    /// The script's place in the arguments; nil: none.
    var script: Int?

    enum Failure: Error {
        /// As lua: exit status 1.
        case usage(String)
        /// A wrong use of our own options: exit status 64.
        case own(String)
    }

    private static let long = ["--help", "--version"]

    init(_ arguments: [String]) throws(Failure) {
        var index = 1
        while index < arguments.count {
            let argument = arguments[index]
            guard argument.hasPrefix("-") else { break }
            if argument == "-" { break }  // standard input is the script
            if argument == "--" {
                index += 1
                break
            }
            if argument.hasPrefix("--") {
                switch argument {
                case "--help": help = true
                case "--version": version = true
                default: throw .own("unknown option '\(argument)'\(Self.suggestion(argument))")
                }
                index += 1
                continue
            }
            let flag = argument.dropFirst().first
            let rest = String(argument.dropFirst(2))
            switch flag {
            case "e", "l", "p":
                // The text follows at once, or is the next argument, which must not look like an option.
                var text = rest
                if text.isEmpty {
                    index += 1
                    guard index < arguments.count, !(arguments[index].hasPrefix("-") && flag != "p") else {
                        throw .usage("'\(argument)' needs argument")
                    }
                    text = arguments[index]
                }
                switch flag {
                case "e": steps.append(.execute(text))
                case "p": steps.append(.print(text))
                default:
                    let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                    let name = String(parts.last ?? "")
                    steps.append(.require(name: name, global: parts.count == 2 ? String(parts[0]) : name))
                }
            case _ where !rest.isEmpty:
                throw .usage("unrecognized option '\(argument)'")
            case "i":
                interactive = true
                version = true
            case "v": version = true
            case "E": ignoresEnvironment = true
            case "W": steps.append(.warnings)
            case "c": checksSyntax = true
            case "h": help = true
            default: throw .usage("unrecognized option '\(argument)'")
            }
            index += 1
        }
        if index < arguments.count { script = index }
    }

    private static func suggestion(_ argument: String) -> String {
        let near = long.filter { $0.hasPrefix(argument) || argument.hasPrefix($0) }
        return near.first.map { " (did you mean '\($0)'?)" } ?? "; 'rlhost --help' lists them"
    }

    static let usage = """
        usage: rlhost [options] [script [args]]
        Available options are:
          -e stat   execute string 'stat'
          -i        enter interactive mode after executing 'script'
          -l mod    require library 'mod' into global 'mod'
          -l g=mod  require library 'mod' into global 'g'
          -p expr   print the values of 'expr'
          -c        check the script's syntax, do not run it
          -v        show version information
          -E        ignore environment variables
          -W        turn warnings on
          -h        show this help and exit
          --        stop handling options
          -         stop handling options and execute stdin

        """
}
