/// The timers that are in exactly the same modes, as a heap. So each timer is in one queue, however many modes it has.
final class TimerQueue {
    let loop: Unmanaged<RunLoop>  // the loop owns its queues
    /// Whether the timers were added to the common modes. A mode that becomes common is then added to `modes`.
    let isCommon: Bool
    var modes: [RunLoop.ModeState] { didSet { noteModes() } }
    /// The mode, if there is exactly one; not retained. Nearly all queues have one mode.
    private var onlyMode: UnsafeMutableRawPointer?
    /// The number of timers in these modes, whether in the heap or about to fire.
    var count = 0
    /// The number of these timers that do not keep the loop running.
    var idle = 0
    /// The number of these timers with `mayAnswer`.
    var answering = 0
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

    /// Counts a timer that enters these modes.
    @inline(__always)
    func enter(_ node: NodePointer) {
        count += 1
        if !node.pointee.keepsAlive { countIdle(node, 1) }
    }

    /// Counts a timer that leaves these modes.
    @inline(__always)
    func leave(_ node: NodePointer) {
        count -= 1
        if !node.pointee.keepsAlive { countIdle(node, -1) }
    }

    /// Counts a timer that does not keep the loop running.
    func countIdle(_ node: NodePointer, _ change: Int) {
        idle += change
        if node.pointee.mayAnswer { answering += change }
    }

    func isOf(_ other: RunLoop) -> Bool { loop.toOpaque() == Unmanaged.passUnretained(other).toOpaque() }

    func serves(_ mode: RunLoop.ModeState) -> Bool {
        onlyMode.map { $0 == Unmanaged.passUnretained(mode).toOpaque() } ?? modes.contains { $0 === mode }
    }
}
