import TestSupport
import Testing

@Suite("Notifications")
struct NotificationTests {
    @Test("the queue does what the script expects, misuse included", arguments: ["notification-queue.lua"])
    func scripts(script: String) throws { try ToldScript.check("\(ThreadTests.folder)/\(script)") }
}
