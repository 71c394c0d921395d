import TestSupport
import Testing

@testable import Tracing

@Suite("Formats of recordings", .timed)
struct FormatTests {
    @Test("the ending of a path determines the format")
    func endings() {
        #expect(Recording.Format(path: "a.html") == .page)
        #expect(Recording.Format(path: "a/b.pftrace") == .perfetto)
        #expect(Recording.Format(path: "a.json") == .events)
        for other in ["", "html", ".html", "a.htm", "a.HTML", "a.json.gz"] {
            #expect(Recording.Format(path: other) == nil)
        }
    }
}
