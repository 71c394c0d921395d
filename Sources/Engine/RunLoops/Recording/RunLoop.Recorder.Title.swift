internal import Linux

extension RunLoop {
    package typealias Title = Recorder.Title
}

extension RunLoop.Recorder {
    /// The description for which a label in records stands.
    package struct Title: Hashable, Sendable {
        /// "timer", "source", "port", "observer", "request", "task", "message", "span", "collector", "stream",
        /// "program", "http", "nats", "data", "other".
        package var kind: String
        /// Such as `timer "poll"`.
        package var text: String
        /// The place where the object was made, such as "app.lua:12".
        package var place: String

        package init(_ kind: String, _ text: String, place: String = "") {
            self.kind = kind
            self.text = text
            self.place = place
        }

        /// Makes a title of the kind, and the name in quotation marks if there is one.
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

    /// The largest number of labels. Programs can make up any number of names.
    private static let mostLabels = 1 << 16
    /// The largest number of labels for names from outside, such as paths and addresses. So there is always room for
    /// names of the script.
    private static let mostForeignLabels = 1 << 13

    /// Returns the number of a title in this process. Equal titles have equal numbers. Safe on any thread. Too slow to
    /// be called for each event.
    ///
    /// - Parameter isForeign: True for a name from outside the script.
    package static func label(_ title: Title, isForeign: Bool = false) -> UInt32 {
        labels.withLock { labels in
            if let number = labels.numbers[title] { return number }
            if isForeign { labels.foreign += 1 }
            guard labels.titles.count < mostLabels, !isForeign || labels.foreign <= mostForeignLabels else {
                // All further titles of the kind share this one.
                let rest = Title(title.kind, "\(title.kind) (one of many)")
                return labels.numbers[rest] ?? labels.add(rest)
            }
            return labels.add(title)
        }
    }

    /// The title of a label. Safe on any thread.
    package static func title(_ label: UInt32) -> Title? {
        labels.withLock { labels in
            label > 0 && label <= labels.titles.count ? labels.titles[Int(label) - 1] : nil
        }
    }
}
