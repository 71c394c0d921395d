/// A task as other threads have it: something to compare, and to send back to where it is a task again.
final class SharedTask: Sendable {
    /// Where it was made.
    let site: String?

    init(site: String?) { self.site = site }
}
