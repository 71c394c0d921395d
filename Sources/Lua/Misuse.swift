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
        let advice =
            nearest(to: field, known).map { "did you mean '\($0)'?" }
            ?? "there \(known.count == 1 ? "is" : "are"): \(known.sorted().joined(separator: ", "))"
        self.init("unknown field '\(field)' (\(advice))")
    }

    private init() {
        message = "not enough memory"
        isForMemory = true
    }

    public static let noMemory = Misuse()
}
