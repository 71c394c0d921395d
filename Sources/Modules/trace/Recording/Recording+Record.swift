internal import Linux
package import RunLoops

extension Recording {
    /// One thing that happened, as a loop's recorder has it. The time is that of CLOCK_MONOTONIC, or of a virtual clock.
    package typealias Record = RunLoop.Recorder.Record
}

/// What files say instead of numbers of records: why a loop woke, and what a run came to. The page has words of its own.
enum RecordWords {
    static let wakes = ["timer", "descriptor", "wake-up", "signal", "time over"]
    static let results = ["finished", "stopped", "timed_out", "handled_source"]

    /// nil for a number that means nothing.
    static func word(_ number: UInt64, of words: [String]) -> String? {
        number > 0 && number <= words.count ? words[Int(number) - 1] : nil
    }

    /// Files once had the number.
    static func number(_ text: String, of words: [String]) -> UInt64 {
        words.firstIndex(of: text).map { UInt64($0 + 1) } ?? UInt64(text) ?? 0
    }
}

extension RunLoop.Recorder.Record {
    package typealias Kind = RunLoop.Recorder.Kind
    package typealias Flags = RunLoop.Recorder.Flags
    package typealias Wake = RunLoop.Recorder.Wake

    /// Bytes of one record.
    package static let size = 32

    package init(
        time: UInt64, kind: Kind, flags: UInt8 = 0, thread: UInt16 = 0, object: UInt32 = 0, a: UInt64 = 0,
        flow: UInt32 = 0, task: UInt32 = 0
    ) {
        self.init(kind, time, flags: flags, object: object, a: a, flow: flow, task: task)
        self.thread = thread
    }

    /// Of bytes that need not be aligned.
    package init(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        self = bytes.loadUnaligned(fromByteOffset: offset, as: Self.self)
    }
}

extension Recording.Name {
    /// What a label of this process's recorders stands for.
    package init(label: UInt32) {
        let title = RunLoop.Recorder.title(label) ?? .init("other", "")
        self.init(
            kind: .init(rawValue: title.kind) ?? .other, text: title.text.shownInLine, place: title.place.shownInLine)
    }
}
