/// The form of a task in other threads. They can compare it, and send it back to its own thread, where it is a task
/// again.
final class SharedTask: Sendable {
    /// The creation site.
    let site: String?

    init(site: String?) { self.site = site }
}
