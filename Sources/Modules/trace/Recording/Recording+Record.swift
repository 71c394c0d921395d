internal import Linux
package import RunLoops

extension Recording {
    /// One event in a loop's recorder. The time is that of CLOCK_MONOTONIC, or of a virtual clock.
    package typealias Record = RunLoop.Recorder.Record
}

/// The words that files contain for the numbers of records: why a loop woke, and how a run ended. The page has its own
/// words.
enum RecordWords {
    static let wakes = ["timer", "descriptor", "wake-up", "signal", "time over"]
    static let results = ["finished", "stopped", "timed_out", "handled_source"]

    /// Returns nil for a number without a meaning.
    static func word(_ number: UInt64, of words: [String]) -> String? {
        number > 0 && number <= words.count ? words[Int(number) - 1] : nil
    }

    /// Old files contain the number itself.
    static func number(_ text: String, of words: [String]) -> UInt64 {
        words.firstIndex(of: text).map { UInt64($0 + 1) } ?? UInt64(text) ?? 0
    }
}

extension RunLoop.Recorder.Record {
    package typealias Kind = RunLoop.Recorder.Kind
    package typealias Flags = RunLoop.Recorder.Flags
    package typealias Wake = RunLoop.Recorder.Wake

    /// The bytes of one record.
    package static let size = 32

    package init(
        time: UInt64, kind: Kind, flags: UInt8 = 0, thread: UInt16 = 0, object: UInt32 = 0, a: UInt64 = 0,
        flow: UInt32 = 0, task: UInt32 = 0
    ) {
        self.init(kind, time, flags: flags, object: object, a: a, flow: flow, task: task)
        self.thread = thread
    }

    /// Reads a record from bytes that need not be aligned.
    package init(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        self = bytes.loadUnaligned(fromByteOffset: offset, as: Self.self)
    }
}

extension Recording.Name {
    /// Returns the name of a label of this process's recorders.
    package init(label: UInt32) {
        let title = RunLoop.Recorder.title(label) ?? .init("other", "")
        self.init(
            kind: .init(rawValue: title.kind) ?? .other, text: title.text.shownInLine, place: title.place.shownInLine)
    }
}
