extension LineEditor {
    /// The host's answer about an entry when Enter is pressed.
    public enum Verdict: Equatable, Sendable {
        /// The entry is accepted, whether it is right or wrong.
        case complete
        /// More lines have to follow: Enter inserts a newline.
        case incomplete
    }
}
