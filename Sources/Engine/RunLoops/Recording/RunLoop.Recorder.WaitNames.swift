extension RunLoop.Recorder {
    /// The names of functions in which the tasks of a loop have waited. Each name gets a number that is small enough
    /// for a record: its index in a table, to which it is added at its first use. An entry never changes, so that other
    /// threads may read it after a record with its number.
    struct WaitNames: BitwiseCopyable {
        /// An entry of the table. The key contains the name's address, since names are constants of the program. If the
        /// task waits for an object whose creation site is known, the key contains the site, too. The key of a free
        /// entry is 0.
        private struct Place {
            var key: UInt = 0
            var label: UInt32 = 0
        }

        private var places: UnsafeMutablePointer<Place>?
        private var count: UInt32 = 0
        private static let capacity: UInt32 = 256
        /// The largest number of entries; further names get the number 0. The program has fewer than half as many
        /// names.
        private static let most: UInt32 = 224
        /// When the table has this many entries, new names are stored without a site, so that there is room for all
        /// names of the program.
        private static let mostWithSites: UInt32 = 112
        /// The number of bits for the address in a key. The bits above contain the site.
        private static let addressBits: UInt = 47

        func free() { places?.deallocate() }

        /// Returns the number of a name if it is at the first index for its hash, else 0. Only on the loop's thread.
        @inline(__always)
        func first(_ name: StaticString) -> UInt32 {
            let address = UInt(bitPattern: name.utf8Start)
            let index = Self.index(of: address)
            guard let places, places[Int(index)].key == address else { return 0 }
            return index + 1
        }

        @inline(__always)
        private static func index(of key: UInt) -> UInt32 {
            ((UInt32(truncatingIfNeeded: key) ^ UInt32(truncatingIfNeeded: key >> addressBits)) &* 0x9E37_79B1) >> 24
        }

        /// Returns the number of a name; 0 if the table is full. Only on the loop's thread. O(1).
        mutating func number(of name: StaticString) -> UInt32 {
            number(UInt(bitPattern: name.utf8Start), most: Self.most) { "\(name)" }
        }

        /// Returns the number of a name together with the site of the object that the task waits for. The first wait
        /// for an object of this site calls `origin`. If the table has many entries, returns the number of the name
        /// alone.
        mutating func number(of name: StaticString, site: UInt32, _ origin: () -> String?) -> UInt32 {
            let address = UInt(bitPattern: name.utf8Start)
            guard address >> Self.addressBits == 0, site >> (UInt.bitWidth - Int(Self.addressBits)) == 0 else {
                return number(of: name)
            }
            let found = number(address | UInt(site) << Self.addressBits, most: Self.mostWithSites) {
                origin().map { "\(name) (\($0))" } ?? "\(name)"
            }
            return found != 0 ? found : number(of: name)
        }

        private mutating func number(_ key: UInt, most: UInt32, _ text: () -> String) -> UInt32 {
            let places = self.places ?? .allocate(capacity: Int(Self.capacity))
            if self.places == nil { places.initialize(repeating: Place(), count: Int(Self.capacity)) }
            self.places = places
            var index = Self.index(of: key)
            while places[Int(index)].key != key, places[Int(index)].key != 0 {
                index = (index + 1) & (Self.capacity - 1)
            }
            if places[Int(index)].key == key { return index + 1 }
            guard count < most else { return 0 }
            count += 1
            let text = text()
            var label = text.isEmpty ? 0 : RunLoop.Recorder.label(.init("other", text))
            // If labels have run out, the wait gets no label rather than the label that all further titles share.
            if RunLoop.Recorder.title(label)?.text != text { label = 0 }
            places[Int(index)] = Place(key: key, label: label)
            return index + 1
        }

        /// Returns the label for a number of a record; 0 if there is none. Safe on any thread.
        func label(_ number: UInt32) -> UInt32 {
            guard let places, number > 0, number <= Self.capacity else { return 0 }
            return places[Int(number - 1)].label
        }
    }
}
