internal import Glibc
internal import Linux
internal import RunLoops
internal import Tracing

extension TraceNames {
    /// Where this process runs, and by which clock, for recordings of several processes.
    static var origin: Recording.Origin {
        Recording.Origin(
            identity: RunLoop.Recorder.identity, machine: machine, host: host, zero: zero)
    }

    private static var host: String {
        var name = utsname()
        guard uname(&name) == 0 else { return "" }
        return withUnsafeBytes(of: name.nodename) { bytes in
            String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
    }

    /// A hash that is equal for all processes with the same monotonic clock. It is computed from the machine's start
    /// and from the namespace of times, because containers may have clocks of their own. 0 if the system does not
    /// report it.
    private static var machine: UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        func mix(_ bytes: UnsafeRawBufferPointer) {
            for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        }
        let file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return 0 }
        defer { close(file) }
        return withUnsafeTemporaryAllocation(byteCount: 64, alignment: 1) { buffer in
            let length = read(file, buffer.baseAddress, buffer.count)
            guard length > 0 else { return 0 }
            mix(UnsafeRawBufferPointer(rebasing: buffer[..<length]))
            // Kernels before 5.6 have no such namespaces.
            var namespace = stat()
            if stat("/proc/self/ns/time", &namespace) == 0 { withUnsafeBytes(of: namespace.st_ino, mix) }
            return hash
        }
    }

    private static var zero: UInt64 {
        var (now, since) = (timespec(), timespec())
        clock_gettime(CLOCK_REALTIME, &now)
        clock_gettime(CLOCK_MONOTONIC, &since)
        let seconds = now.tv_sec - since.tv_sec
        return UInt64(max(0, seconds * 1_000_000_000 + now.tv_nsec - since.tv_nsec))
    }
}
