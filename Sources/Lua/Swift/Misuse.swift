/// A call that makes no sense: what to tell the caller, without the name of the function, which `Call.raise` puts before it.
public struct Misuse: Error {
    public let message: String
    /// There was no memory to find out.
    let isForMemory: Bool

    public init(_ message: String) {
        self.message = message
        isForMemory = false
    }

    /// A field that there is not.
    public init(unknown field: String, known: [String]) {
        self.init("unknown field '\(field)'\(Self.hint(for: field, known))")
    }

    /// What is said behind a name that is not known: which one is meant, or which there are.
    public static func hint(for name: String, _ known: [String]) -> String {
        if let meant = nearest(to: name, known) { return " (did you mean '\(meant)'?)" }
        guard !known.isEmpty else { return "" }
        return " (there \(known.count == 1 ? "is" : "are"): \(known.sorted().joined(separator: ", ")))"
    }

    private init() {
        message = "not enough memory"
        isForMemory = true
    }

    public static let noMemory = Misuse()
}
