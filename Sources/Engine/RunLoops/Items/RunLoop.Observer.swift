extension RunLoop {
    /// Calls back when a loop reaches certain points of its passes. CFRunLoopObserver.
    public final class Observer: Item {
        /// The points of a pass at which it is called.
        public let activities: Activity
        /// Whether the observer stays valid after its first call. CFRunLoopObserverDoesRepeat.
        public let repeats: Bool
        private let callback: (Observer, Activity) -> Void
        /// Whether the observer's callback is running. Nested runs then skip the observer.
        var isFiring = false

        /// - Parameters:
        ///   - activities: The points of a pass at which to call back.
        ///   - repeats: If false, the observer is called once and is then invalid.
        ///   - order: Observers with lower orders are called first.
        ///   - name: The name in descriptions and recordings.
        ///   - owner: Gets the calls of `ItemOwner`.
        ///   - callback: Called on the loop's thread.
        public init(
            _ activities: Activity, repeats: Bool = true, order: Int = 0, name: String = "", owner: ItemOwner? = nil,
            callback: @escaping (Observer, Activity) -> Void
        ) {
            self.activities = activities
            self.repeats = repeats
            self.callback = callback
            super.init(name: name, order: order, owner: owner)
        }

        func tell(_ activity: Activity) {
            isFiring = true
            callback(self, activity)
            isFiring = false
            if !repeats { invalidate() }
        }
    }
}
