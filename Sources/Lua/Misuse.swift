/// A call that makes no sense: what to tell the caller, without the name of the function, which `Call.raise` puts before it.
public struct Misuse: Error {
    public let message: String
    /// There was no memory to find out.
    let isForMemory: Bool

    public init(_ message: String) {
        self.message = message
        isForMemory = false
    }

    private init() {
        message = "not enough memory"
        isForMemory = true
    }

    public static let noMemory = Misuse()
}
