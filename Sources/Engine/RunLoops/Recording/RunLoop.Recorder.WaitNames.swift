extension RunLoop.Recorder {
    /// What the tasks of one loop have waited in, by numbers that are small enough for a record: places in a table, filled at the first
    /// use of each name. A place keeps its meaning, so that other threads may read it who have read a record with its number.
    struct WaitNames: BitwiseCopyable {
        /// The name, by its address, for it is the program's own and stays where it is; 0: the place is free.
        private struct Place {
            var address: UInt = 0
            var label: UInt32 = 0
        }

        private var places: UnsafeMutablePointer<Place>?
        private var count: UInt32 = 0
        private static let capacity: UInt32 = 256
        /// Beyond that a wait has no name. There are not half as many in the program.
        private static let most: UInt32 = 224

        func free() { places?.deallocate() }

        /// Its number, if it is at the place where it is looked for first; else 0. On the loop's thread.
        @inline(__always)
        func first(_ name: StaticString) -> UInt32 {
            let address = UInt(bitPattern: name.utf8Start)
            let index = Self.index(of: address)
            guard let places, places[Int(index)].address == address else { return 0 }
            return index + 1
        }

        @inline(__always)
        private static func index(of address: UInt) -> UInt32 {
            (UInt32(truncatingIfNeeded: address) &* 0x9E37_79B1) >> 24
        }

        /// Its number; 0 if there is no room. On the loop's thread. O(1).
        mutating func number(of name: StaticString) -> UInt32 {
            let places = self.places ?? .allocate(capacity: Int(Self.capacity))
            if self.places == nil { places.initialize(repeating: Place(), count: Int(Self.capacity)) }
            self.places = places
            let address = UInt(bitPattern: name.utf8Start)
            var index = Self.index(of: address)
            while places[Int(index)].address != address, places[Int(index)].address != 0 {
                index = (index + 1) & (Self.capacity - 1)
            }
            if places[Int(index)].address == address { return index + 1 }
            guard count < Self.most else { return 0 }
            count += 1
            let text = "\(name)"
            var label = text.isEmpty ? 0 : RunLoop.Recorder.label(.init("other", text))
            // Where names have run out, there is none that says what it is.
            if RunLoop.Recorder.title(label)?.text != text { label = 0 }
            places[Int(index)] = Place(address: address, label: label)
            return index + 1
        }

        /// What a number of a record stands for; 0: nothing. On any thread.
        func label(_ number: UInt32) -> UInt32 {
            guard let places, number > 0, number <= Self.capacity else { return 0 }
            return places[Int(number - 1)].label
        }
    }
}
