internal import RunLoops

// Labels and marks that recordings have for streams.
extension Stream {
    /// The label of a connection without a name. All connections of one listener share a label.
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

    /// Notes the start of a connection, or of the attempt to connect. The operation lasts until the stream is closed.
    func noteBeginning() {
        let loop = network.loop
        if loop.isRecording { lasting = loop.noteBeginning(loop.label(of: self)) }
    }

    /// Does the same for one of many connections that share a label. The first of them makes the label.
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
