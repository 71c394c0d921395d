/// The error for a wrong call. The message does not contain the function's name; `Call.raise` adds the name in front.
public struct Misuse: Error {
    public let message: String
    /// Whether there was too little memory to check the call.
    let isForMemory: Bool

    public init(_ message: String) {
        self.message = message
        isForMemory = false
    }

    /// Returns the end of a message about an unknown name: the name that is probably meant, or all existing names.
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
