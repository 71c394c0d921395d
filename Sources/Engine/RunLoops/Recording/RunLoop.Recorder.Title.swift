internal import Linux

extension RunLoop.Recorder {
    /// What is known of something that records are about.
    package struct Title: Hashable, Sendable {
        /// "timer", "source", "port", "observer", "request", "task", "message", "span", "collector", "stream", "program", "http", "other".
        package var kind: String
        /// `timer "poll"`
        package var text: String
        /// Where it was made: "app.lua:12".
        package var place: String

        package init(_ kind: String, _ text: String, place: String = "") {
            self.kind = kind
            self.text = text
            self.place = place
        }

        /// The kind, and the name in quotation marks if there is one.
        package init(_ kind: String, word: String? = nil, name: String, place: String = "") {
            self.init(kind, (word ?? kind) + (name.isEmpty ? "" : " \"\(name)\""), place: place)
        }
    }

    private struct Labels: Sendable {
        var numbers: [Title: UInt32] = [:]
        var titles: [Title] = []
        var foreign = 0

        mutating func add(_ title: Title) -> UInt32 {
            titles.append(title)
            numbers[title] = UInt32(titles.count)
            return UInt32(titles.count)
        }
    }

    private static let labels = Lock(Labels())

    /// Names are made up freely: so many are told apart.
    private static let mostLabels = 1 << 16
    /// The same of names that come from outside, as paths and addresses do: all others are to have room beside them.
    private static let mostForeignLabels = 1 << 13

    /// The number of a title in this process, the same each time. On any thread; not for what happens often.
    ///
    /// - Parameter isForeign: the world makes up such names, not the script.
    package static func label(_ title: Title, isForeign: Bool = false) -> UInt32 {
        labels.withLock { labels in
            if let number = labels.numbers[title] { return number }
            if isForeign { labels.foreign += 1 }
            guard labels.titles.count < mostLabels, !isForeign || labels.foreign <= mostForeignLabels else {
                // What all further ones of the kind are called.
                let rest = Title(title.kind, "\(title.kind) (one of many)")
                return labels.numbers[rest] ?? labels.add(rest)
            }
            return labels.add(title)
        }
    }

    /// What a label means. On any thread.
    package static func title(_ label: UInt32) -> Title? {
        labels.withLock { labels in
            label > 0 && label <= labels.titles.count ? labels.titles[Int(label) - 1] : nil
        }
    }
}
