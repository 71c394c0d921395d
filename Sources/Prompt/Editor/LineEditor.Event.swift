extension LineEditor {
    /// Actions of the user that the host has to handle.
    public enum Event: Equatable, Sendable {
        /// An entry was accepted, possibly of several lines. The editor is idle until `begin()`.
        case line(String)
        /// Control-D on an empty entry. The editor is idle until `begin()`.
        case endOfFile
        /// Control-C on an empty entry, whose prompt stays on the screen; or Control-C while the editor is idle.
        case interrupt
        /// Control-C dropped what had been typed; a fresh prompt is on the screen already.
        case discarded
        /// Control-Z. The prompt is hidden: stop the process, and call `show()` afterwards.
        case suspend
        /// Control-\\: the user wants to see what the process does. The entry stays as it is.
        case explain
        /// Control-X Control-E. The prompt is hidden: open the text in an editor, and call `show(with:)` afterwards.
        case edit(String)
        /// A key had no effect. Hosts that want a sound write a BEL.
        case bell
    }
}
