internal import Linux

extension RunLoop {
    /// A port that watches a file descriptor.
    open class DescriptorPort: PortBase {
        /// -1: it watches none.
        public internal(set) final var fd: Int32

        init(_ fd: Int32, name: String, order: Int, owner: ItemOwner?) {
            self.fd = fd
            super.init(name: name, order: order, owner: owner)
        }

        /// What it watches for at the moment.
        var interest: FDPort.Events { [] }

        /// Takes note of what the kernel found; whether it concerns this port.
        func find(_ events: FDPort.Events) -> Bool { false }

        /// The descriptor is not what it was, or cannot be watched.
        func loseDescriptor(_ error: SystemError) {}
    }
}
