extension [UInt8] {
    mutating func append(contentsOf text: String) { append(contentsOf: text.utf8) }

    mutating func append(decimal number: UInt64) {
        var digits: (UInt64, UInt64, UInt64) = (0, 0, 0)  // Room for 20 digits, on the stack.
        var rest = number
        var place = 20
        Swift.withUnsafeMutableBytes(of: &digits) { digits in
            repeat {
                place -= 1
                digits[place] = UInt8(ascii: "0") + UInt8(rest % 10)
                rest /= 10
            } while rest > 0
            append(contentsOf: digits[place..<20])
        }
    }

    /// Appends nanoseconds as microseconds with three decimals, which is exact.
    mutating func append(microseconds nanoseconds: UInt64) {
        append(decimal: nanoseconds / 1000)
        append(UInt8(ascii: "."))
        let rest = nanoseconds % 1000
        append(UInt8(ascii: "0") + UInt8(rest / 100))
        append(UInt8(ascii: "0") + UInt8(rest / 10 % 10))
        append(UInt8(ascii: "0") + UInt8(rest % 10))
    }

    /// Appends "0x" and 16 digits.
    mutating func append(hex number: UInt64) {
        let digits: StaticString = "0123456789abcdef"
        append(contentsOf: "0x")
        for shift in stride(from: 60, through: 0, by: -4) {
            append(digits.utf8Start[Int(number >> UInt64(shift) & 15)])
        }
    }

    /// Appends a JSON string with its quotation marks.
    mutating func append(quoted text: String) {
        let hex: StaticString = "0123456789abcdef"
        append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                append(UInt8(ascii: "\\"))
                append(byte)
            case UInt8(ascii: "\n"): append(contentsOf: "\\n")
            case 0..<0x20:
                append(contentsOf: "\\u00")
                append(hex.utf8Start[Int(byte >> 4)])
                append(hex.utf8Start[Int(byte & 15)])
            default: append(byte)
            }
        }
        append(UInt8(ascii: "\""))
    }
}
