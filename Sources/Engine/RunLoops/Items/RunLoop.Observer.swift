extension RunLoop {
    /// Is told when a loop reaches certain points of its passes. CFRunLoopObserver.
    public final class Observer: Item {
        public let activities: Activity
        public let repeats: Bool
        private let callback: (Observer, Activity) -> Void
        /// Its callback is running: nested runs do not call it.
        var isFiring = false

        /// - Parameter repeats: false: it is told once, of the first of its activities, and is then invalid.
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
