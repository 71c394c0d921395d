/// A random generator of the host, independent of `math.random`. Equal seeds give equal numbers.
package struct SeededNumbers {
    private var state: UInt64

    /// - Parameter number: distinguishes the states of a program.
    package init(seed: UInt64, number: Int) { state = seed &+ UInt64(truncatingIfNeeded: number) << 32 }

    /// Returns 64 random bits (SplitMix64): adds a large constant to a counter, and mixes the bits of the sum.
    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var bits = state
        bits = (bits ^ (bits >> 30)) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ (bits >> 27)) &* 0x94D0_49BB_1331_11EB
        return bits ^ (bits >> 31)
    }
}

extension LuaHost {
    /// Returns a random number from 0 to 1, without 1.
    package func chance() -> Double {
        var kernel = SystemRandomNumberGenerator()
        let bits = seeded?.next() ?? kernel.next()
        return Double(bits >> 11) / Double(1 << 53)
    }
}
