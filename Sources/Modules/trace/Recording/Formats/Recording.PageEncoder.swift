internal import CLinux
internal import CTracing
internal import Glibc

extension Recording {
    /// The page, followed by chunks in script elements that no browser runs. A chunk begins with two letters: "z"
    /// (compressed by gzip) or "r" (raw), and "n" (names as JSON) or "e" (records in columns). The data follow in
    /// base64. A file that ends early is still a page with all chunks written so far.
    final class PageEncoder: Encoder {
        var bytes: [UInt8] = []
        private var pending: [UInt8] = []
        private var names: [UInt8] = []
        private var threads: [UInt8] = []
        private let stream: OpaquePointer?

        /// The bytes of a chunk's records. Larger chunks compress better, but a killed program loses more.
        private static let chunk = 8192 * Record.size

        var held: Int { pending.count / Record.size }

        init() { stream = linux_open_deflate(1, 1, 15) }

        deinit { linux_close_deflate(stream) }

        func begin(_ about: About) {
            var count = 0
            let page = tracing_page(&count)
            bytes.append(contentsOf: UnsafeRawBufferPointer(start: page, count: count))
            tell(about, lost: 0)
        }

        func name(_ number: UInt32, _ name: Name) {
            names.append(contentsOf: names.isEmpty ? "[" : ",[")
            names.append(decimal: UInt64(number))
            for text in [name.kind.rawValue, name.text, name.place] {
                names.append(UInt8(ascii: ","))
                names.append(quoted: text)
            }
            names.append(UInt8(ascii: "]"))
        }

        func thread(_ number: UInt16, _ name: String, of process: Int?) {
            threads.append(contentsOf: threads.isEmpty ? "[" : ",[")
            threads.append(decimal: UInt64(number))
            threads.append(UInt8(ascii: ","))
            threads.append(quoted: name)
            if let process { threads.append(contentsOf: ",\(process)") }
            threads.append(UInt8(ascii: "]"))
        }

        func records(_ records: UnsafeRawBufferPointer) {
            pending.append(contentsOf: records)
            if pending.count >= Self.chunk { flush() }
        }

        func flush() {
            if !names.isEmpty || !threads.isEmpty {
                var text: [UInt8] = []
                text.append(contentsOf: "{\"names\":[")
                text.append(contentsOf: names)
                text.append(contentsOf: "],\"threads\":[")
                text.append(contentsOf: threads)
                text.append(contentsOf: "]}")
                names.removeAll()
                threads.removeAll()
                append(chunk: text, "n")
            }
            guard !pending.isEmpty else { return }
            append(chunk: Self.columns(of: pending), "e")
            pending.removeAll(keepingCapacity: true)
        }

        /// Returns the first four bytes of all records, then the second four of all, and so on. Each time is the
        /// difference to the record before. Similar bytes are then next to each other, which halves the size and saves
        /// time in compressing and reading.
        private static func columns(of records: [UInt8]) -> [UInt8] {
            let count = records.count / Record.size, words = Record.size / 4
            return [UInt8](unsafeUninitializedCapacity: count * Record.size) { columns, used in
                records.withUnsafeBytes { records in
                    let columns = UnsafeMutableRawBufferPointer(columns)
                    var before: UInt64 = 0
                    for record in 0..<count {
                        let start = record * Record.size
                        let time = UInt64(littleEndian: records.loadUnaligned(fromByteOffset: start, as: UInt64.self))
                        let passed = time &- before
                        before = time
                        columns.store(UInt32(truncatingIfNeeded: passed), at: 0, record, of: count)
                        columns.store(UInt32(truncatingIfNeeded: passed >> 32), at: 1, record, of: count)
                        for word in 2..<words {
                            let value = records.loadUnaligned(fromByteOffset: start + word * 4, as: UInt32.self)
                            columns.store(UInt32(littleEndian: value), at: word, record, of: count)
                        }
                    }
                }
                used = count * Record.size
            }
        }

        func end(_ about: About, lost: Int) { tell(about, lost: lost) }

        private func tell(_ about: About, lost: Int) {
            var text: [UInt8] = []
            text.append(contentsOf: "{\"about\":{\"title\":")
            text.append(quoted: about.title)
            text.append(contentsOf: ",\"process\":\(about.process),\"dropped\":\(about.dropped),\"lost\":\(lost)")
            if !about.processes.isEmpty { tell(about.processes, &text) }
            text.append(contentsOf: "}}")
            append(chunk: text, "n")
        }

        private func tell(_ processes: [Joined], _ text: inout [UInt8]) {
            text.append(contentsOf: ",\"processes\":[")
            for (place, one) in processes.enumerated() {
                text.append(contentsOf: place == 0 ? "{\"name\":" : ",{\"name\":")
                text.append(quoted: one.title)
                text.append(contentsOf: ",\"host\":")
                text.append(quoted: one.host)
                text.append(contentsOf: ",\"process\":\(one.process),\"shares\":\(one.sharesClock)")
                if let error = one.error { text.append(contentsOf: ",\"error\":\(error)") }
                text.append(contentsOf: "}")
            }
            text.append(contentsOf: "]")
        }

        private func append(chunk: [UInt8], _ kind: String) {
            bytes.append(contentsOf: "<script type=\"text/x-rlhost\">")
            let packed = compressed(chunk)
            bytes.append(contentsOf: packed == nil ? "r" : "z")
            bytes.append(contentsOf: kind)
            append(base64: packed ?? chunk)
            bytes.append(contentsOf: "</script>\n")
        }

        /// Returns nil without libz.
        private func compressed(_ chunk: [UInt8]) -> [UInt8]? {
            guard let stream else { return nil }
            linux_reset_deflate(stream)
            var output = linux_bytes()
            defer { free(output.bytes) }
            let status = chunk.withUnsafeBytes { chunk in
                linux_step_deflate(stream, chunk.bindMemory(to: CChar.self).baseAddress, chunk.count, 1, .max, &output)
            }
            guard status == 1 else { return nil }
            return Array(UnsafeRawBufferPointer(start: output.bytes, count: output.length))
        }

        private func append(base64 source: [UInt8]) {
            let count = (source.count + 2) / 3 * 4
            let encoded = [UInt8](unsafeUninitializedCapacity: count) { buffer, used in
                guard let start = buffer.baseAddress else { return }
                used = start.withMemoryRebound(to: CChar.self, capacity: count) { to in
                    linux_write_base64(to, source, source.count)
                }
            }
            bytes.append(contentsOf: encoded)
        }
    }
}

extension UnsafeMutableRawBufferPointer {
    /// Stores a word in columns that follow one another, as in the file.
    fileprivate func store(_ word: UInt32, at column: Int, _ row: Int, of rows: Int) {
        storeBytes(of: word.littleEndian, toByteOffset: (column * rows + row) * 4, as: UInt32.self)
    }
}
