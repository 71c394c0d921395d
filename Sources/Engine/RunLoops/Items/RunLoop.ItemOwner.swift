extension RunLoop {
    /// A host's side of its items: one object for any number of them, which it tells apart by their `context`. It costs no
    /// memory per item, as closures do. Called on the thread of the item's loop, except `forget`.
    open class ItemOwner {
        public init() {}
        /// A descriptor of the port's is ready.
        open func deliver(_ events: FDPort.Events, of port: FDPort) {}
        /// The source has been signalled.
        open func perform(_ source: Source) {}
        /// The item has left its last mode, and no loop holds it any more.
        open func letGo(of item: Item) {}
        /// The item is gone. On any thread.
        open func forget(_ context: Int) {}
    }
}
