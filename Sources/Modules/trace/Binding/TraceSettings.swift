public import Linux
internal import Lua
public import LuaRunLoops
internal import RunLoops
internal import Tracing

/// What the command line wants of the recorder.
public struct TraceSettings: Sendable {
    /// Nothing is recorded but for `file`, and for scripts that ask for it.
    public var isOff = false
    /// It begins at once, not when the loop has run for a second.
    public var beginsAtOnce = false
    /// The recording of all that happens.
    public var file: String?
    /// What recordings are of, before the script begins: its path.
    public var title: String?
    /// Its size, in bytes.
    public var limit = Recording.Writer.defaultLimit
    /// Where the last moments go when an error is not handled.
    public var errorDirectory: String?
    /// After a callback that has held the loop for longer, in seconds, they are written down too.
    public var slow: Double?
    /// Recordings have the arguments of programs that the script starts, which may be secrets.
    public var recordsArguments = false
    /// Callbacks that hold the loop for longer, in seconds, are told on standard error.
    public var warningAfter: Double?

    public init() {}

    /// Bytes that a recording has at least.
    public static var leastLimit: Int { Recording.Writer.leastLimit }

    /// Why a path is none for a recording; nil: it is one.
    public static func fault(inPath path: String) -> String? {
        Recording.Format(path: path) == nil ? Recording.Format.advice : nil
    }

    /// Whether something is to be recorded from the beginning.
    private var isNeededAtOnce: Bool {
        beginsAtOnce || file != nil || errorDirectory != nil || slow != nil || warningAfter != nil
    }

    /// Makes it so, for this state and for those of all threads to come. Before the script, and behind `handleSignals`.
    ///
    /// - Throws: what keeps `file` from being written.
    public func apply(to host: LuaHost) throws(SystemError) {
        TracePart.settings = self
        LuaHost.recordsArguments = recordsArguments
        LuaHost.recorder = { wish in
            switch wish {
            case .begin(let host, let isNew):
                let settings = TracePart.settings
                if isNew ? settings.isNeededAtOnce || TraceFile.current != nil : !settings.isOff {
                    host.part(TracePart.self).begin()
                }
            case .dump(let path): return TraceNames.failure(ofDumpTo: path)
            }
            return nil
        }
        if !isOff { host.watchDumps() }
        guard isNeededAtOnce else { return }
        if let file { _ = try TraceFile(path: file, limit: limit) }
        host.part(TracePart.self).begin()
    }

    /// The process ends with an error that nobody has handled.
    public static func noteError(_ host: LuaHost) {
        if let directory = TracePart.settings.errorDirectory {
            host.part(TracePart.self).dump(to: directory, for: "error")
        }
    }
}
