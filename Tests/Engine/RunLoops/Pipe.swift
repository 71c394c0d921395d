import Glibc

/// A pipe, or a pair of sockets, that is closed when its object is freed.
final class Pipe {
    private(set) var reader: Int32
    private(set) var writer: Int32

    /// - Parameter number: The smallest number for the reading end. If a test uses a number after closing it, the
    ///   number must be high, since another test that runs at the same time may get a low one.
    init(socket: Bool = false, readerFrom number: Int32? = nil) {
        var fds: [Int32] = [-1, -1]
        let status =
            socket
            ? socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0, &fds)
            : pipe(&fds)
        precondition(status == 0, "no pipe: errno \(errno)")
        if let number {
            let low = fds[0]
            fds[0] = fcntl(low, F_DUPFD, number)
            close(low)
        }
        for fd in fds { _ = fcntl(fd, F_SETFL, O_NONBLOCK) }
        reader = fds[0]
        writer = fds[1]
    }

    deinit {
        closeReader()
        closeWriter()
    }

    func fire(_ text: String = "x") { _ = write(writer, text, text.utf8.count) }

    /// Reads at most `count` bytes. Returns the number of bytes.
    @discardableResult
    func read(_ count: Int = 1) -> Int {
        var bytes = [UInt8](repeating: 0, count: count)
        return max(0, Glibc.read(reader, &bytes, count))
    }

    /// Whether nothing can be read.
    var isDry: Bool {
        var ready = pollfd(fd: reader, events: Int16(POLLIN), revents: 0)
        return poll(&ready, 1, 0) == 0
    }

    func drain() { while read(4096) > 0 {} }

    func closeReader() {
        if reader >= 0 { close(reader) }
        reader = -1
    }

    func closeWriter() {
        if writer >= 0 { close(writer) }
        writer = -1
    }
}
