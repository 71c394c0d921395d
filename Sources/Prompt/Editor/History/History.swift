public import Linux

/// A list of entries, the oldest first, in memory and optionally in a file.
///
/// All sessions share the file, but each has its own list. Entries that other sessions add meanwhile appear only in the
/// next session.
public struct History {
    /// How many entries are kept, in memory and in the file.
    public let limit: Int

    /// The file that entries are appended to; nil keeps them in memory only.
    public let file: HistoryFile?

    /// The error of the last access to the file. The entry is in memory anyway. Adding the next entry tries the file
    /// again.
    public private(set) var failure: SystemError?

    /// How many entries were cut from the file because it had many more than the limit.
    public private(set) var dropped = 0

    private var entries: [String] = []
    private var unwritten: [String] = []

    /// The number of entries kept by default.
    public static let standardLimit = 10_000

    /// A history without a file. A limit below 1 counts as 1.
    public init(_ entries: [String] = [], limit: Int = History.standardLimit) {
        self.limit = max(limit, 1)
        self.entries = Array(entries.suffix(self.limit))
        file = nil
    }

    /// Reads a file, which need not exist, and shortens it if it has grown far beyond the limit. Never fails: see
    /// `failure`.
    public init(file: HistoryFile, limit: Int = History.standardLimit) {
        self.limit = max(limit, 1)
        self.file = file
        do throws(SystemError) {
            let all = try file.load()
            entries = Array(all.suffix(self.limit))
            if try file.compact(limit: self.limit) { dropped = all.count - entries.count }
        } catch {
            failure = error
        }
    }

    /// The number of entries.
    public var count: Int { entries.count }

    /// An entry, 0 being the oldest. Traps outside of `0..<count`.
    public subscript(position: Int) -> String { entries[position] }

    /// Adds an entry unless it is blank, begins with a blank, or equals the newest one. O(1) amortised, plus one
    /// write to the file.
    public mutating func add(_ entry: String) {
        guard entry != entries.last, entry.utf8.first != 0x20,
            entry.utf8.contains(where: { $0 != 0x20 && $0 != 0x09 && $0 != 0x0A })
        else {
            return
        }
        entries.append(entry)
        // Removes entries in portions: removing the first of 10,000 for each new one would make adding O(n).
        if entries.count >= limit + max(limit / 8, 1) { entries.removeFirst(entries.count - limit) }
        guard let file else { return }
        unwritten.append(entry)
        do throws(SystemError) {
            while let next = unwritten.first {
                try file.append(next)
                unwritten.removeFirst()
            }
            failure = nil
        } catch {
            failure = error
            if unwritten.count > 100 { unwritten.removeFirst() }
        }
    }
}
