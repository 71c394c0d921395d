/// The error of a call that makes no sense. Its message has no name of the function, which `Call.raise` adds in front.
public struct Misuse: Error {
    public let message: String
    /// Whether the memory was too short to check the call.
    let isForMemory: Bool

    public init(_ message: String) {
        self.message = message
        isForMemory = false
    }

    /// The error for a field that does not exist.
    public init(unknown field: String, known: [String]) {
        self.init("unknown field '\(field)'\(Self.hint(for: field, known))")
    }

    /// Returns the end of a message about an unknown name: the name that is probably meant, or all names there are.
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
