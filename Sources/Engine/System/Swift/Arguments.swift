internal import CLinux

/// The words that this process was started with.
package enum Arguments {
    /// The path by which this program was started, as its directory was then; without a look at /proc, which may not be there.
    package static var executable: UnsafePointer<CChar>? { linux_executable() }

    /// The program's name first. Not `CommandLine.arguments`: those are read from /proc, which may not be there, and what is no text
    /// would be repaired.
    package static func all<Word>(_ word: (UnsafePointer<CChar>) -> Word) -> [Word] {
        var all: [Word] = []
        guard var next = linux_arguments() else { return all }
        while let bytes = next.pointee {
            all.append(word(bytes))
            next += 1
        }
        return all
    }
}
