public import CStreams

/// The system calls of streams. Tests override it with calls that fail, are interrupted, or transfer only a part.
///
/// Each function returns the result of the call, or a negative error number. No call waits.
open class SystemCalls {
    public init() {}

    /// True if a read or write that was cut short means that the socket is empty or full. With edge-triggered events,
    /// the kernel guarantees this. Tests in which calls transfer only a part return false.
    open var partsAreAll: Bool { true }

    open func socket(_ family: Int32, _ type: Int32) -> Int32 { net_socket(family, type) }
    open func connect(_ fd: Int32, _ address: UnsafePointer<net_address>) -> Int32 { net_connect(fd, address) }
    open func bind(_ fd: Int32, _ address: UnsafePointer<net_address>) -> Int32 { net_bind(fd, address) }
    open func listen(_ fd: Int32, _ backlog: Int32) -> Int32 { net_listen(fd, backlog) }
    open func accept(_ fd: Int32, _ peer: UnsafeMutablePointer<net_address>) -> Int32 { net_accept(fd, peer) }
    open func socketError(_ fd: Int32) -> Int32 { net_socket_error(fd) }
    open func shutdownOutput(_ fd: Int32) -> Int32 { net_shutdown_output(fd) }
    open func close(_ fd: Int32) -> Int32 { net_close(fd) }

    open func receive(_ fd: Int32, _ bytes: UnsafeMutableRawPointer, _ count: Int) -> Int {
        Int(net_receive(fd, bytes, count))
    }
    open func send(_ fd: Int32, _ pieces: UnsafePointer<iovec>, _ count: Int32) -> Int {
        Int(net_send(fd, pieces, count))
    }
    open func read(_ fd: Int32, _ bytes: UnsafeMutableRawPointer, _ count: Int, isNonblocking: Bool) -> Int {
        Int(isNonblocking ? net_read(fd, bytes, count) : net_read_polled(fd, bytes, count))
    }
    open func write(_ fd: Int32, _ bytes: UnsafeRawPointer, _ count: Int, isNonblocking: Bool) -> Int {
        Int(isNonblocking ? net_write(fd, bytes, count) : net_write_polled(fd, bytes, count))
    }
    open func receive(
        _ fd: Int32, _ bytes: UnsafeMutableRawPointer, _ count: Int, from: UnsafeMutablePointer<net_address>
    ) -> Int { Int(net_receive_from(fd, bytes, count, from)) }
    open func send(
        _ fd: Int32, _ bytes: UnsafeRawPointer, _ count: Int, to: UnsafePointer<net_address>?
    ) -> Int { Int(net_send_to(fd, bytes, count, to)) }
}
