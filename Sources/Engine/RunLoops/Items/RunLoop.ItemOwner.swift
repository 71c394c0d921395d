extension RunLoop {
    /// An object that gets the calls of any number of items, and distinguishes the items by their `context`. Unlike
    /// closures, it takes no memory for each item. The loop calls the owner on the item's thread, except `forget`.
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
