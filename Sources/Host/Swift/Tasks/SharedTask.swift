/// The form of a task in other threads. Other threads can compare this object, and send it back to the task's own
/// thread, where it is a task again.
final class SharedTask: Sendable {
    /// The creation site.
    let site: String?

    init(site: String?) { self.site = site }
}
