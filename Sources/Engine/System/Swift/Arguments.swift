internal import CLinux

/// The command line of this process.
package enum Arguments {
    /// The path by which the program was started, relative to the directory at that time. Works without /proc, which
    /// some containers lack.
    package static var executable: UnsafePointer<CChar>? { linux_executable() }

    /// Calls `word` for each argument, the program's name first. Do not use `CommandLine.arguments`: it reads /proc,
    /// and replaces bytes that are not UTF-8.
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
