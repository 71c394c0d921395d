/// Text from outside need not be UTF-8: file names, arguments and Lua strings are bytes. To carry any bytes through
/// Swift strings, each byte that is not part of valid UTF-8 becomes one of the 128 last code points, U+10FF80 to
/// U+10FFFF. These are otherwise unused; if a text contains one, its bytes are converted in the same way. All other
/// text is unchanged.
extension String {
    private static let firstByte: UInt32 = 0x10FF00

    /// Converts any bytes to text.
    public init(anyBytes bytes: UnsafeRawBufferPointer) {
        // The UTF-8 of all those code points begins with this byte.
        if !bytes.contains(0xF4), let text = String(validating: bytes, as: UTF8.self) {
            self = text
            return
        }
        var scalars = String.UnicodeScalarView()
        var rest = bytes[...]
        while !rest.isEmpty {
            if let (scalar, length) = Self.first(of: rest), scalar.value < Self.firstByte + 0x80 {
                scalars.append(scalar)
                rest = rest.dropFirst(length)
            } else {
                if let byte = rest.first, let scalar = Unicode.Scalar(Self.firstByte + UInt32(byte)) {
                    scalars.append(scalar)
                }
                rest = rest.dropFirst()
            }
        }
        self.init(scalars)
    }

    private static func first(of bytes: Slice<UnsafeRawBufferPointer>) -> (Unicode.Scalar, Int)? {
        for length in 1...4 where length <= bytes.count {
            if let text = String(validating: bytes.prefix(length), as: UTF8.self),
                let scalar = text.unicodeScalars.first
            {
                return (scalar, length)
            }
        }
        return nil
    }

    /// Converts a C string to text.
    public init(anyBytes text: UnsafePointer<CChar>) {
        var length = 0
        while text[length] != 0 { length += 1 }
        self.init(anyBytes: UnsafeRawBufferPointer(start: text, count: length))
    }

    /// The original bytes: those given to `init(anyBytes:)`.
    public var anyBytes: [UInt8] {
        let bytes = Array(utf8)
        guard bytes.contains(0xF4) else { return bytes }
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count)
        for scalar in unicodeScalars {
            if scalar.value >= Self.firstByte + 0x80 {
                result.append(UInt8(truncatingIfNeeded: scalar.value))
            } else {
                result.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
            }
        }
        return result
    }

    /// The original bytes, and a terminating zero.
    public var cBytes: [CChar] { anyBytes.map { CChar(bitPattern: $0) } + [0] }

    /// Calls `body` with the original bytes.
    public func withAnyBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        var text = self
        if !text.utf8.contains(0xF4) { return text.withUTF8 { body(UnsafeRawBufferPointer($0)) } }
        return anyBytes.withUnsafeBytes(body)
    }

    /// Calls `body` with the original bytes and a terminating zero.
    public func withAnyCString<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
        if !utf8.contains(0xF4) { return withCString(body) }
        return (anyBytes + [0]).withUnsafeBytes { bytes in
            let start = bytes.assumingMemoryBound(to: CChar.self).baseAddress
            return start.map(body) ?? withCString(body)
        }
    }
}
