internal import RunLoops

/// What a stream without a descriptor of its own reads from and writes to.
class Backing {
    /// As `SystemCalls`: a count, 0 at the end, or a negative error number.
    func receive(_ place: UnsafeMutableRawPointer, _ room: Int) -> Int { 0 }
    func send(_ bytes: UnsafeRawBufferPointer) -> Int { 0 }
    /// Why the last call could not be made, though the next may be: told once.
    func takeRefusal() -> StreamFailure? { nil }
    /// No more is sent.
    func finish() {}
    func close(reset: Bool) {}
    /// What it took is not yet where it belongs.
    var isBusy: Bool { false }
    /// Waits until all that it took is where it belongs. Returns the error number of what is lost, or 0.
    func finishWriting() -> Int32 { 0 }
    /// The stream is in one more mode, or in one less.
    func entered(_ mode: RunLoop.Mode) {}
    func left(_ mode: RunLoop.Mode) {}
    var address: String? { nil }
    var peer: String? { nil }
}
