import Foundation

/// The release build beside these tests.
package enum Release {
    package static let path = Binary.repository + "/.build/release/rlhost"

    /// Whether the release build exists and is at least as new as every source.
    package static let isCurrent: Bool = {
        guard !Binary.isUnderThreadSanitizer, let built = changed(path) else { return false }
        let sources = FileManager.default.enumerator(atPath: Binary.repository + "/Sources")?.allObjects ?? []
        return sources.allSatisfy { source in
            (source as? String).flatMap { changed(Binary.repository + "/Sources/" + $0) }.map { $0 <= built } ?? true
        }
    }()

    private static func changed(_ path: String) -> Date? {
        try? FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date
    }
}
