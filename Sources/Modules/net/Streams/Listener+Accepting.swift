internal import RunLoops

extension Listener {
    /// Puts a connection into the listener's modes.
    func enter(_ stream: Stream) {
        let loop = network.loop
        if loop.contains(self, in: .common) {
            loop.add(stream, to: .common)
            guard modeNames.count != loop.commonModeNames.count else { return }
        }
        for mode in modeNames { loop.add(stream, to: mode) }
    }
}
