extension Recording {
    /// What turns a recording into one format's bytes. All that is appended to `bytes` goes to the file, in this order.
    protocol Encoder: AnyObject {
        var bytes: [UInt8] { get set }
        /// How many records it has been told that are not in `bytes` yet.
        var held: Int { get }

        func begin(_ about: About)
        func name(_ number: UInt32, _ name: Name)
        func thread(_ number: UInt16, _ name: String)
        /// Whole records.
        func records(_ records: UnsafeRawBufferPointer)
        /// What has been held back so far.
        func flush()
        /// - Parameter lost: how many records at the end had no room any more.
        func end(_ about: About, lost: Int)
    }
}
