/// The timers that are in exactly the same modes, as a heap: a timer is in one queue, whatever the number of its modes.
final class TimerQueue {
    let loop: Unmanaged<RunLoop>  // it owns its queues
    /// Its timers were added to the common modes: a mode that becomes common joins `modes`.
    let isCommon: Bool
    var modes: [RunLoop.ModeState] { didSet { noteModes() } }
    /// The only one of them, as nearly always; not retained.
    private var onlyMode: UnsafeMutableRawPointer?
    /// How many timers are in these modes, in the heap or about to fire.
    var count = 0
    /// How many of them do not keep the loop running.
    var idle = 0
    let heap = TimerHeap()

    init(loop: Unmanaged<RunLoop>, modes: [RunLoop.ModeState], isCommon: Bool) {
        self.loop = loop
        self.modes = modes
        self.isCommon = isCommon
        noteModes()
    }

    private func noteModes() {
        onlyMode = modes.count == 1 ? Unmanaged.passUnretained(modes[0]).toOpaque() : nil
    }

    /// A timer has entered these modes.
    @inline(__always)
    func enter(_ node: NodePointer) {
        count += 1
        if !node.pointee.keepsAlive { idle += 1 }
    }

    /// A timer has left them.
    @inline(__always)
    func leave(_ node: NodePointer) {
        count -= 1
        if !node.pointee.keepsAlive { idle -= 1 }
    }

    func isOf(_ other: RunLoop) -> Bool { loop.toOpaque() == Unmanaged.passUnretained(other).toOpaque() }

    func serves(_ mode: RunLoop.ModeState) -> Bool {
        onlyMode.map { $0 == Unmanaged.passUnretained(mode).toOpaque() } ?? modes.contains { $0 === mode }
    }
}
