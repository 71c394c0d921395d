extension RunLoop {
    /// The host of any number of items, which it tells apart by their `context`. Unlike a closure, it costs no memory
    /// for each item. The loop calls the owner on the item's thread, except `forget`.
    open class ItemOwner {
        public init() {}
        /// Called when the descriptor of a port is ready.
        open func deliver(_ events: FDPort.Events, of port: FDPort) {}
        /// Called once after the source was signalled.
        open func perform(_ source: Source) {}
        /// Called when the item has left its last mode, and no loop retains it any more.
        open func letGo(of item: Item) {}
        /// Called when the item is deallocated. On any thread.
        open func forget(_ context: Int) {}
    }
}
