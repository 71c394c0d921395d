internal import RunLoops

// What recordings tell of streams.
extension Stream {
    /// What it is called that has no name, and is a connection. Those of a listener are all called the same.
    var connectionTitle: String? {
        guard name.isEmpty else { return nil }
        if let listener {
            guard listener.name.isEmpty else { return "connection of listener \"\(listener.name)\"" }
            return "connection at \(listener.address ?? listener.place.text)"
        }
        if wasAccepted { return "connection" }
        return (connector?.target ?? remote.text).map { "connection to \($0)" }
    }

    func didRead(_ count: Int) {
        bytesRead += count
        network.loop.noteBytes(self, count, out: false)
    }

    func didWrite(_ count: Int) {
        bytesWritten += count
        network.loop.noteBytes(self, count, out: true)
    }

    /// A connection begins, or begins to be made. It ends when the stream is closed.
    func noteBeginning() {
        let loop = network.loop
        if loop.isRecording { lasting = loop.noteBeginning(loop.label(of: self)) }
    }

    /// The same of one like others, whose label is known from the first of them on.
    func noteBeginning(like label: inout UInt32) {
        self.label = label
        noteBeginning()
        label = self.label
    }

    func noteEnd() {
        guard lasting != 0 else { return }
        network.loop.noteEnd(lasting, label, failed: inputFailure != nil || outputFailure != nil)
        lasting = 0
    }
}
