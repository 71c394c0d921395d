internal import Glibc

/// Times of the wall clock as text, in the process's time zone.
package enum LocalTime {
    /// Returns a text such as `2026-03-29 02:30:00`; the number itself if it is outside the calendar.
    package static func text(_ secondsSince1970: Double) -> String {
        guard var seconds = Int(exactly: secondsSince1970.rounded(.down)) else { return "\(secondsSince1970)" }
        var fields = tm()
        guard localtime_r(&seconds, &fields) != nil else { return "\(secondsSince1970)" }
        var buffer = [CChar](repeating: 0, count: 40)
        let count = strftime(&buffer, buffer.count, "%Y-%m-%d %H:%M:%S", &fields)
        return String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
