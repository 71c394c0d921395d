import Glibc
import TestSupport
import Testing

@testable import LineEditor

@Suite(.timed) struct KilledWriterTests {
    /// A process that appends to a history until it is killed.
    final class Writer {
        let name: String
        private var process: pid_t = 0
        private var pipeEnd: Int32 = -1

        init?(_ name: String, path: String, limit: Int, length: Int = 0) {
            self.name = name
            var ends: [Int32] = [0, 0]
            guard pipe(&ends) == 0 else { return nil }
            defer { close(ends[1]) }
            pipeEnd = ends[0]
            _ = fcntl(ends[0], F_SETFD, FD_CLOEXEC)
            var actions = posix_spawn_file_actions_t()
            posix_spawn_file_actions_init(&actions)
            defer { posix_spawn_file_actions_destroy(&actions) }
            posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
            let words = [Self.program, path, name, "\(limit)", "\(length)"]
            var arguments = words.map { strdup($0) } + [nil]
            defer { for argument in arguments { free(argument) } }
            guard posix_spawn(&process, Self.program, &actions, nil, &arguments, environ) == 0 else { return nil }
        }

        /// The tests and the writer are built into the same directory.
        private static let program: String = {
            var buffer = [CChar](repeating: 0, count: 4096)
            // The runner may be the test bundle itself or a program that has it as an argument.
            for word in CommandLine.arguments where word.contains("/") {
                guard let slash = word.lastIndex(of: "/") else { continue }
                let candidate = word[..<slash] + "/HistoryWriter"
                if access(String(candidate), X_OK) == 0 { return String(candidate) }
            }
            let length = readlink("/proc/self/exe", &buffer, buffer.count - 1)
            let path = String(decoding: buffer.prefix(max(length, 0)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
            return path.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
                + "/HistoryWriter"
        }()

        /// Kills the process and returns the number of entries that it reported as written.
        func kill() -> Int {
            Glibc.kill(process, SIGKILL)
            var status: Int32 = 0
            waitpid(process, &status, 0)
            var output: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while true {
                let count = buffer.withUnsafeMutableBytes { read(pipeEnd, $0.baseAddress, $0.count) }
                guard count > 0 else { break }
                output += buffer[..<count]
            }
            close(pipeEnd)
            return output.count { $0 == 0x0A }
        }
    }

    @Test("Sessions that are killed at any moment lose and tear no entry", .soak(seconds: 20))
    func killed() throws {
        for seed in Soak.seeds {
            try killWriters(seed, limit: seed % 2 == 0 ? 0 : 1_000_000, length: seed / 2 % 2 == 0 ? 0 : 30_000)
        }
    }

    private func killWriters(_ seed: UInt64, limit: Int, length: Int) throws {
        let place = HistoryFileTests.Place()
        let file = place.file()
        var random = Random(seed: seed)
        for round in 0..<4 {
            let writers = (0..<3).compactMap { Writer("\(round)w\($0)", path: file.path, limit: limit, length: length) }
            #expect(writers.count == 3)
            usleep(.random(in: 3_000...40_000, using: &random))
            let counts = writers.map { $0.kill() }
            try file.append("after \(round)")
            let entries = try file.load()
            #expect(entries.last == "after \(round)")
            // If the file is larger, only its end is read.
            var information = stat()
            #expect(stat(file.path, &information) == 0)
            let isWhole = information.st_size <= HistoryFile.longestRead
            for (writer, count) in zip(writers, counts) {
                let own = entries.filter { $0.hasPrefix(writer.name + "-") }
                #expect(own.count >= count || !isWhole)
                let first = own.first?.prefix { $0 != "\n" }.split(separator: "-").last.flatMap { Int($0) } ?? 0
                #expect(first == 0 || !isWhole)
                let third = length > 0 ? "\n" + String(repeating: "x", count: length) : ""
                let numbers = own.indices.map { $0 + first }
                #expect(own == numbers.map { "\(writer.name)-\($0)\nsecond line \\ of \($0)\(third)" })
                #expect(entries.allSatisfy { $0.hasPrefix("after ") || $0.hasSuffix(third) && $0.contains("w") })
            }
        }
    }

    @Test(
        "Sessions that are killed while they shorten the file leave the newest entries of each other",
        .soak(seconds: 20)
    )
    func killedWhileShortening() throws {
        let place = HistoryFileTests.Place()
        let file = place.file()
        for seed in Soak.seeds {
            var random = Random(seed: seed)
            let writers = (0..<3).compactMap { Writer("w\($0)", path: file.path, limit: 20) }
            usleep(.random(in: 3_000...40_000, using: &random))
            let counts = writers.map { $0.kill() }
            let entries = try file.load()
            let written = counts.reduce(0, +)
            #expect(entries.count >= min(written, 20))
            let isWhole = entries.allSatisfy { entry in
                let parts = entry.split(separator: "\n")
                guard parts.count == 2, let number = parts[0].split(separator: "-").last else { return false }
                return parts[1] == "second line \\ of \(number)"
            }
            #expect(isWhole)
        }
    }
}
