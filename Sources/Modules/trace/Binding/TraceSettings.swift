public import Linux
internal import Lua
public import LuaRunLoops
internal import RunLoops
internal import Tracing

/// The settings of the recorder on the command line.
public struct TraceSettings: Sendable {
    /// Records nothing except for `file`, and for scripts that ask for it.
    public var isOff = false
    /// Recording begins at once, and not after the loop has run for a second.
    public var beginsAtOnce = false
    /// The file for a recording of everything.
    public var file: String?
    /// The title of recordings until the script begins: its path.
    public var title: String?
    /// The largest size of the file in bytes.
    public var limit = Recording.Writer.defaultLimit
    /// The directory for dumps when an error is not handled.
    public var errorDirectory: String?
    /// Seconds; a callback that holds the loop for longer causes a dump.
    public var slow: Double?
    /// Recordings have the arguments of programs that the script starts, which may be secrets.
    public var recordsArguments = false
    /// Seconds; a callback that holds the loop for longer is reported on standard error.
    public var warningAfter: Double?

    public init() {}

    /// The least limit in bytes that a recording may have.
    public static var leastLimit: Int { Recording.Writer.leastLimit }

    /// Returns why a path cannot be that of a recording; nil if it can.
    public static func fault(inPath path: String) -> String? {
        Recording.Format(path: path) == nil ? Recording.Format.advice : nil
    }

    /// Whether recording has to begin at the start.
    private var isNeededAtOnce: Bool {
        beginsAtOnce || file != nil || errorDirectory != nil || slow != nil || warningAfter != nil
    }

    /// Applies the settings to this state, and to those of all later threads. Called before the script and after
    /// `handleSignals`.
    ///
    /// - Throws: The error that keeps `file` from being written.
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

    /// Called when the process ends because of an error that was not handled.
    public static func noteError(_ host: LuaHost) {
        if let directory = TracePart.settings.errorDirectory {
            host.part(TracePart.self).dump(to: directory, for: "error")
        }
    }
}
