extension LineEditor {
    /// What the user did that the host has to answer.
    public enum Event: Equatable, Sendable {
        /// An entry was accepted, possibly of several lines. The editor is idle until `begin()`.
        case line(String)
        /// Control-D on an empty entry. The editor is idle until `begin()`.
        case endOfFile
        /// Control-C on an empty entry, which stays on the screen, or while the editor is idle.
        case interrupt
        /// Control-C dropped what had been typed; a fresh prompt is on the screen already.
        case discarded
        /// Control-Z. The prompt has been left and is hidden: stop the process and call `show()` afterwards.
        case suspend
        /// Control-\\: the user wants to know what is going on. The entry stays as it is.
        case explain
        /// Control-X Control-E. The prompt has been left and is hidden: have the text edited, and call `show(with:)` afterwards.
        case edit(String)
        /// Nothing could be done for a key. Hosts that like noise write a BEL.
        case bell
    }
}
