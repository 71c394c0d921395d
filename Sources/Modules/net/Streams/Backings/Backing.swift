internal import RunLoops

/// Reads and writes for a stream whose bytes do not come from a descriptor directly.
class Backing {
    /// Returns the same as the functions of `SystemCalls`: a count, 0 at the end, or a negative error number.
    func receive(_ place: UnsafeMutableRawPointer, _ room: Int) -> Int { 0 }
    func send(_ bytes: UnsafeRawBufferPointer) -> Int { 0 }
    /// The reason why the last call failed, if later calls may succeed. Reported once.
    func takeRefusal() -> StreamFailure? { nil }
    /// Called when nothing more will be sent.
    func finish() {}
    func close(reset: Bool) {}
    /// Bytes that this object has accepted are still being written.
    var isBusy: Bool { false }
    /// Waits until all accepted bytes are written. Returns 0, or the error number if some bytes are lost.
    func finishWriting() -> Int32 { 0 }
    /// The stream has entered or left a mode.
    func entered(_ mode: RunLoop.Mode) {}
    func left(_ mode: RunLoop.Mode) {}
    var address: String? { nil }
    var peer: String? { nil }
}
