internal import Glibc
internal import Linux

// Streams that write to the standard output or error of the process.

extension Stream {
    func standsFor(_ descriptor: Int32) {
        standard = descriptor
        network.writesStandard(self)
    }

    /// Records that output was lost: the exit status shows it.
    func noteLoss(_ failure: StreamFailure?) {
        guard standard != 0 else { return }
        StandardStreams.noteLoss(standard, errno: failure.flatMap { SystemError.number(of: $0.code) } ?? EIO)
    }

    /// Sends the unsent bytes at the end of the process, and waits until the kernel accepts them, as C's streams do.
    func settle() {
        guard state == .open || state == .flushing, outputFailure == nil, unsent > 0 else { return }
        var error = backing?.finishWriting() ?? 0
        if error == 0 { error = Descriptor.write(output.bytes, to: fdToClose) }
        if error != 0 { failOutput(StreamFailure(errno: error, subject)) }
        output.free()
    }
}
