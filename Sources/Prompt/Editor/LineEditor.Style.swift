extension LineEditor {
    /// The style of a range of text. Colours are numbers of the terminal's palette, so that its theme applies.
    public struct Style: Hashable, Sendable {
        /// The palette entry, 0 to 255; nil for the terminal's own text colour.
        public var foreground: UInt8?
        public var attributes: Attributes

        public init(foreground: UInt8? = nil, attributes: Attributes = []) {
            self.foreground = foreground
            self.attributes = attributes
        }

        /// Text as the terminal draws it by itself.
        public static let plain = Style()

        public struct Attributes: OptionSet, Hashable, Sendable {
            public let rawValue: UInt8

            public init(rawValue: UInt8) { self.rawValue = rawValue }

            public static let bold = Self(rawValue: 1)
            public static let dim = Self(rawValue: 2)
            public static let italic = Self(rawValue: 4)
            public static let underlined = Self(rawValue: 8)
            public static let reversed = Self(rawValue: 16)
        }
    }
}

extension LineEditor.Style {
    private static let codes: [(attribute: Attributes, code: Int)] = [
        (.bold, 1), (.dim, 2), (.italic, 3), (.underlined, 4), (.reversed, 7),
    ]

    /// The sequence that switches from any style to this one.
    var sequence: String {
        var parameters = "0"
        for (attribute, code) in Self.codes where attributes.contains(attribute) { parameters += ";\(code)" }
        if let foreground {
            switch foreground {
            case 0..<8: parameters += ";\(30 + Int(foreground))"
            case 8..<16: parameters += ";\(82 + Int(foreground))"
            default: parameters += ";38;5;\(foreground)"
            }
        }
        return "\u{1B}[\(parameters == "0" ? "" : parameters)m"
    }

    /// Applies the parameters of a sequence that a prompt contains. Backgrounds and direct colours are ignored.
    mutating func apply(_ parameters: [Int]) {
        var index = 0
        while index < parameters.count {
            let parameter = parameters[index]
            switch parameter {
            case 0: self = .plain
            case 22: attributes.subtract([.bold, .dim])
            case 30...37: foreground = UInt8(parameter - 30)
            case 90...97: foreground = UInt8(parameter - 82)
            case 39: foreground = nil
            case 38, 48:
                let isIndexed = index + 2 < parameters.count && parameters[index + 1] == 5
                if isIndexed, parameter == 38 { foreground = UInt8(clamping: parameters[index + 2]) }
                index += isIndexed ? 2 : 4
            default:
                if let code = Self.codes.first(where: { $0.code == parameter }) { attributes.insert(code.attribute) }
                if let code = Self.codes.first(where: { $0.code + 20 == parameter }) {
                    attributes.remove(code.attribute)
                }
            }
            index += 1
        }
    }
}
