/// One press of a key, or one paste, as the terminal reported it.
package enum Key: Equatable {
    /// A character that was typed, control characters included.
    case scalar(Unicode.Scalar)
    /// A character with Alt held down or after Escape.
    case meta(Unicode.Scalar)
    /// The character after Control-Q or Control-V. The character is inserted even if it is a control character, which
    /// otherwise would act as a key.
    case literal(Unicode.Scalar)
    case named(Name, Modifiers)
    /// F1 to F20.
    case function(Int, Modifiers)
    /// An event of the mouse, if the terminal was asked to report them.
    case mouse(Mouse)
    /// A bracketed paste, as raw bytes.
    case paste([UInt8])
    /// A complete sequence with no meaning here.
    case unknown

    package enum Name: String {
        case up, down, right, left, home, end, insert, delete, pageUp, pageDown, backTab
    }

    package struct Modifiers: OptionSet, Sendable {
        package let rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }
        package static let shift = Self(rawValue: 1)
        package static let alt = Self(rawValue: 2)
        package static let control = Self(rawValue: 4)
    }

    package struct Mouse: Equatable {
        package enum Action: String { case press, release, move, drag, wheelUp, wheelDown }
        package let action: Action
        /// 1: left, 2: middle, 3: right; 0: none, or a wheel.
        package let button: Int
        /// Counted from 1.
        package let column: Int
        package let row: Int
        package let modifiers: Modifiers
    }
}
