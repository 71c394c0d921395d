/// Represents a task in other threads. Other threads can compare this object, and can send it back to the task's own
/// thread, where it becomes the task again.
final class SharedTask: Sendable {
    /// The creation site.
    let site: String?

    init(site: String?) { self.site = site }
}
