import Glibc
import Linux
import TestSupport
import Testing

@testable import LineEditor

@Suite(.timed) struct HistoryFileTests {
    /// A directory for one test, which is removed with its contents.
    final class Place {
        let path: String

        init() {
            var template = Array("/tmp/history-XXXXXX".utf8CString)
            path = template.withUnsafeMutableBufferPointer { buffer in
                buffer.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) } ?? ""
            }
        }

        deinit {
            for name in ["history", "history.new", "link", "a/b/history"] { unlink("\(path)/\(name)") }
            for name in ["a/b", "a", ""] { rmdir("\(path)/\(name)") }
        }

        func file(_ name: String = "history") -> HistoryFile { HistoryFile(path: "\(path)/\(name)") }

        func write(_ bytes: [UInt8], _ name: String = "history") {
            let descriptor = open("\(path)/\(name)", O_WRONLY | O_CREAT | O_TRUNC, 0o644)
            _ = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            close(descriptor)
        }

        func bytes(_ name: String = "history") -> [UInt8] {
            var result: [UInt8] = []
            let descriptor = open("\(path)/\(name)", O_RDONLY)
            defer { close(descriptor) }
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while true {
                let count = buffer.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
                guard count > 0 else { return result }
                result += buffer[..<count]
            }
        }

        func mode(_ name: String) -> mode_t {
            var status = stat()
            return stat("\(path)/\(name)", &status) == 0 ? status.st_mode & 0o777 : 0
        }
    }

    @Test("A file that is not regular is refused, and not read")
    func noFile() {
        let place = Place()
        #expect(mkfifo("\(place.path)/history", 0o600) == 0)
        #expect(symlink("/dev/zero", "\(place.path)/link") == 0)
        for name in ["history", "link"] {
            var history = History(file: place.file(name))
            #expect(history.failure?.message.hasSuffix("\(name) is not a regular file") == true)
            history.add("x")
            #expect(history.count == 1 && history.failure != nil)
        }
    }

    @Test("A file that has grown far beyond the limit is cut, and the number of lost bytes is reported")
    func cut() {
        let place = Place()
        place.write(Array((1...30).map { "\($0)\n" }.joined().utf8))
        #expect(History(file: place.file(), limit: 100).dropped == 0)
        let history = History(file: place.file(), limit: 20)
        #expect(history.dropped == 10 && history[0] == "11" && history.failure == nil)
        #expect(History(file: place.file(), limit: 20).dropped == 0)
    }

    @Test(
        "An entry is read back unchanged",
        arguments: ["x = 1", "a\nb\n\nc", "\\n \\ \\\\", "tab\t\u{1B}[m\u{0}\r", "日本 é 😀", "\\x41", ""])
    func coding(_ entry: String) {
        let line = HistoryCoding.encode(entry)
        #expect(line.last == 0x0A && line.dropLast().allSatisfy { $0 >= 0x20 })
        #expect(HistoryCoding.decode(line.dropLast()) == entry)
    }

    @Test("Only the owner may read the file and its directory")
    func modes() throws {
        let place = Place()
        try place.file("a/b/history").append("x")
        #expect(place.mode("a") == 0o700 && place.mode("a/b") == 0o700 && place.mode("a/b/history") == 0o600)
        place.write(Array("old\n".utf8))
        try place.file().append("new")
        #expect(place.mode("history") == 0o600)
        #expect(try place.file().load() == ["old", "new"])
    }

    @Test("The next editor reads the entries of the previous one")
    func sessions() {
        let place = Place()
        for entry in ["one", "two\nlines", "two\nlines", "three"] {
            var history = History(file: place.file())
            history.add(entry)
            #expect(history.failure == nil)
        }
        let history = History(file: place.file())
        #expect((0..<history.count).map { history[$0] } == ["one", "two\nlines", "three"])
    }

    @Test("A last line that was cut short is ended by the next append, wherever it was cut")
    func truncation() throws {
        let place = Place()
        let whole = HistoryCoding.encode("first") + HistoryCoding.encode("a\nb\\c\u{1}é")
        for length in 0...whole.count {
            place.write(Array(whole[..<length]))
            try place.file().append("next")
            let entries = try place.file().load()
            #expect(entries.last == "next")
            if length >= 6 { #expect(entries.first == "first") }
            #expect(entries.count <= 3)
        }
    }

    @Test(
        "Loading removes the beginning of a line whose writer was killed, up to the end of a page"
    )
    func cutByTheKernel() throws {
        let place = Place()
        let page = sysconf(Int32(_SC_PAGESIZE))
        let long = String(repeating: "long ", count: page)
        for pages in 1...3 {
            place.write(Array((HistoryCoding.encode("first") + HistoryCoding.encode(long))[..<(pages * page)]))
            #expect(try place.file().load() == ["first"])
            try place.file().append("next")
            #expect(try place.file().load() == ["first", "next"])
            #expect(place.bytes() == Array("first\nnext\n".utf8))
            // The first of all.
            place.write(Array(HistoryCoding.encode(long)[..<(pages * page)]))
            try place.file().append("next")
            #expect(try place.file().load() == ["next"])
        }
        // A complete line that ends at a page boundary is kept, and so is a line that is longer than this program
        // writes.
        place.write(HistoryCoding.encode(String(repeating: "x", count: page - 1)))
        try place.file().append("next")
        #expect(try place.file().load().map(\.count) == [page - 1, 4])
        let foreign = (HistoryFile.longestEntry / page + 1) * page
        place.write([UInt8](repeating: 0x61, count: foreign))
        try place.file().append("next")
        #expect(try place.file().load().map(\.count) == [foreign, 4])
    }

    @Test("Invalid data in the file is read without harm")
    func garbage() throws {
        var random = Random(seed: 3)
        let place = Place()
        for _ in 0..<50 {
            let bytes = (0..<500).map { _ in UInt8.random(in: 0...255, using: &random) }
            place.write(bytes)
            try place.file().append("good")
            let history = History(file: place.file(), limit: 5)
            #expect(history.failure == nil)
            #expect(history[history.count - 1] == "good")
        }
    }

    @Test("A default name is not followed if it is a link; a link of another user never is")
    func links() throws {
        let place = Place()
        #expect(symlink("elsewhere", "\(place.path)/link") == 0)
        let path = "\(place.path)/link"
        let unchosen = HistoryFile(path: path, followsLinks: false)
        let reason = "\(path) is a symbolic link: it is not followed"
        #expect(throws: SystemError("create", path, errno: ELOOP, reason: reason)) { try unchosen.append("secret") }
        if geteuid() == 0 {
            #expect(lchown(path, 65534, 65534) == 0)
            #expect(throws: SystemError.self) { try HistoryFile(path: path).append("secret") }
        }
        #expect(access("\(place.path)/elsewhere", F_OK) != 0)
    }

    @Test("A file that has grown too long is cut to its newest entries, through a link, too")
    func compaction() throws {
        let place = Place()
        for number in 0..<130 { try place.file().append("\(number)") }
        symlink("history", "\(place.path)/link")
        let history = History(file: place.file("link"), limit: 100)
        #expect(history.count == 100)
        #expect(try place.file().load() == (30..<130).map(String.init))
        #expect(place.mode("history") == 0o600)
        var status = stat()
        #expect(lstat("\(place.path)/link", &status) == 0 && status.st_mode & S_IFMT == S_IFLNK)
    }

    @Test("Errors of the system are reported and lose no entry in memory")
    func refusal() {
        let place = Place()
        place.write([])
        var history = History(file: HistoryFile(path: "\(place.path)/history/below"))
        history.add("x")
        #expect(history.count == 1)
        #expect(history.failure?.errno == ENOTDIR)
        #expect(history.failure?.description.contains("history/below") == true)
    }

    @Test("A lock that another process keeps makes appending fail soon, and the entry is written later")
    func keptLock() throws {
        let place = Place()
        try place.file().append("first")
        // The descriptor is not inherited by children of tests that run at the same time: they would keep the lock.
        let descriptor = open("\(place.path)/history", O_RDONLY | O_CLOEXEC)
        #expect(flock(descriptor, LOCK_EX) == 0)
        var history = History(file: place.file())
        history.add("second")
        #expect(history.failure?.errno == EWOULDBLOCK)
        close(descriptor)
        history.add("third")
        #expect(history.failure == nil)
        #expect(try place.file().load() == ["first", "second", "third"])
    }

    @Test("An entry that is too long stays in memory")
    func longEntry() throws {
        let place = Place()
        var history = History(file: place.file())
        history.add(String(repeating: "x", count: HistoryFile.longestEntry))
        history.add("short")
        #expect(history.count == 2)
        #expect(try place.file().load() == ["short"])
    }

    @Test("Threads that append and shorten at once lose no newest entry and tear none")
    func threads() async throws {
        let place = Place()
        let file = place.file()
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask {
                    for number in 0..<200 {
                        while (try? file.append("\(thread)-\(number)\n\\x")) == nil {}
                        if number % 20 == thread { _ = try? file.compact(limit: 1_000) }
                    }
                }
            }
        }
        let entries = try file.load()
        #expect(entries.count == 800)
        for thread in 0..<4 {
            let own = entries.filter { $0.hasPrefix("\(thread)-") }
            #expect(own == (0..<200).map { "\(thread)-\($0)\n\\x" })
        }
    }
}
