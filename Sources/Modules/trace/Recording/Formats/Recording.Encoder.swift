extension Recording {
    /// Encodes a recording in one format. Everything appended to `bytes` goes to the file in this order.
    protocol Encoder: AnyObject {
        var bytes: [UInt8] { get set }
        /// The number of records received that are not in `bytes` yet.
        var held: Int { get }

        func begin(_ about: About)
        func name(_ number: UInt32, _ name: Name)
        /// - Parameter process: The index of its process in `About.processes`, if several are joined; `name` begins
        ///   with that process's name.
        func thread(_ number: UInt16, _ name: String, of process: Int?)
        /// Receives whole records.
        func records(_ records: UnsafeRawBufferPointer)
        /// Appends all records held back so far.
        func flush()
        /// - Parameter lost: The number of records at the end for which there was no more room.
        func end(_ about: About, lost: Int)
    }
}
