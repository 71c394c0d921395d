internal import CLinux
internal import Glibc

/// A user of the system, whom this process can become.
package struct Account {
    private var account = linux_account()

    /// - Returns: nil if there is no such user.
    package init?(named name: String) throws(SystemError) {
        let found = linux_find_user(name, 0, &account)
        guard found >= 0 else { throw SystemError("getpwnam", name) }
        if found == 0 { return nil }
    }

    /// A user given by number. The user gets no supplementary groups. The home directory is "/" if the system's user
    /// database has none for this number.
    ///
    /// - Parameter group: the group of a user that is in no list; if it is nil, the initializer returns nil for such a
    ///   user.
    package init?(number: UInt32, group: UInt32?) throws(SystemError) {
        let found = linux_find_user(nil, number, &account)
        guard found >= 0 else { throw SystemError("getpwuid", "\(number)") }
        if found == 0 {
            guard let group else { return nil }
            account.group = group
        }
        account.user = number
        isInLists = false
    }

    /// Whether the user was found by name in the system's lists. Such a user also gets the groups that list the name.
    private var isInLists = true

    package var user: UInt32 { account.user }

    package mutating func setGroup(_ number: UInt32) { account.group = number }

    /// - Returns: the number; nil if there is no such group.
    package static func group(named name: String) throws(SystemError) -> UInt32? {
        var number: UInt32 = 0
        let found = linux_find_group(name, &number)
        guard found >= 0 else { throw SystemError("getgrnam", name) }
        return found == 1 ? number : nil
    }

    /// Whether this process may become another user.
    package static var mayChange: Bool { geteuid() == 0 }

    /// Gives up root's rights, in all threads and for good. A failure half-way ends the process with status 77.
    ///
    /// - Throws: The system's error, if nothing has changed.
    package func become() throws(SystemError) {
        var account = account
        guard linux_become_user(&account, isInLists ? 1 : 0) != 0 else { return }
        let error = linux_errno()
        throw SystemError(
            "setgroups", errno: error, reason: "the groups cannot be set: \(SystemError.text(of: error))")
    }
}
