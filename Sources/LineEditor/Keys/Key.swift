/// One press of a key, or one paste, as the terminal reported it.
enum Key: Equatable {
    /// A character that was typed, control characters included.
    case scalar(Unicode.Scalar)
    /// A character with Alt held down or after Escape.
    case meta(Unicode.Scalar)
    /// The character after Control-Q or Control-V: it stands for itself, whatever it is.
    case literal(Unicode.Scalar)
    case named(Name, Modifiers)
    /// A bracketed paste, as raw bytes.
    case paste([UInt8])
    /// A sequence that is complete and means nothing to us.
    case unknown

    enum Name {
        case up, down, right, left, home, end, insert, delete, pageUp, pageDown, backTab
    }

    struct Modifiers: OptionSet {
        let rawValue: UInt8
        static let shift = Self(rawValue: 1)
        static let alt = Self(rawValue: 2)
        static let control = Self(rawValue: 4)
    }
}
