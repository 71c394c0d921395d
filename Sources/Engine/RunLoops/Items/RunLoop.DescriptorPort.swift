internal import Linux

extension RunLoop {
    /// A port that watches a file descriptor.
    open class DescriptorPort: PortBase {
        /// The watched file descriptor; -1 if none.
        public internal(set) final var fd: Int32

        init(_ fd: Int32, name: String, order: Int, owner: ItemOwner?) {
            self.fd = fd
            super.init(name: name, order: order, owner: owner)
        }

        /// The events that the port watches for now.
        var interest: FDPort.Events { [] }

        /// Stores events that the kernel has reported. Returns whether any of the events concern this port.
        func find(_ events: FDPort.Events) -> Bool { false }

        /// Called when the descriptor's number refers to another file now, or the descriptor cannot be watched.
        func loseDescriptor(_ error: SystemError) {}
    }
}
