public import Lua
public import RunLoops

/// The data of a module or feature for one Lua state. The host calls the part when the state is closed and between two
/// tests. The host also asks the part to describe the items that it has put into the loop.
///
/// A part is made when it is first used, by `host.part(Streams.self)`, and lives as long as its host. All calls are
/// made on the host's thread.
open class HostPart {
    // The host owns this object. A safe `unowned` reference traps while the host is being deinitialized, when it closes
    // its state.
    public unowned(unsafe) let host: LuaHost

    public required init(_ host: LuaHost) { self.host = host }

    /// Stops everything that could call into Lua, because the state is being closed. Called twice, before and after the
    /// last code of the script.
    open func willClose() {}

    /// Called when the state was closed. Closes objects that the last finalizers have dropped, since the loop makes no
    /// further pass that could close them.
    open func didClose() {}

    /// After a test, ends the part's background activity, so that the test runner does not report it as left behind.
    open func settle() {}

    /// Resets everything before the test runner's next test. The loop is already empty.
    open func reset() {}

    /// Called between two callbacks after a call of `handle.raiseAttention()`, if the program handles signals.
    open func attend() {}

    /// Called when the process ends and the state is not closed. Ends connections with other processes.
    open func willExit() {}

    /// Called before the process becomes another user. Removes files and other objects that the new user could not
    /// remove.
    open func willChangeUser() {}

    /// Called after `willChangeUser`, even if changing the user has failed. Makes the removed objects again.
    open func didChangeUser() {}

    /// Fulfils requests of attached users and signals; see `Interpreter.grant`.
    open func grant(_ wishes: Wishes, isRunning: Bool) {}

    /// Whether the code that is about to be interrupted is an attached user's; see `Interpreter.isInEntry`.
    open var isInEntry: Bool { false }

    /// Whether this part, and not the script, has caused an unhandled error. Such an error is reported, but not passed
    /// to the script's error handler.
    open func hasCaused(_ failure: Failure) -> Bool { false }

    /// Describes an item in a mode, if this part has put it there. `entry` has the data that any item has.
    open func show(_ item: RunLoop.Item, in entry: inout InspectBinding.Entry) {}

    /// Describes a timer that is not a script's own.
    open func show(_ timer: UnsafeMutablePointer<RunLoop.TimerNode>, in entry: inout InspectBinding.Entry) {}

    /// Returns the script position at which such an item was made, for recordings; nil if it is not known.
    open func place(of item: RunLoop.Item) -> String? { nil }
}

extension LuaHost {
    /// Returns the part of this class. Searches the parts, which are few; data that every callback needs is a property
    /// of the host.
    package func part<Part: HostPart>(_: Part.Type = Part.self) -> Part {
        if let part = existingPart(Part.self) { return part }
        let part = Part(self)
        parts.append(part)
        return part
    }

    /// Returns the part of this class if it exists already.
    package func existingPart<Part: HostPart>(_: Part.Type = Part.self) -> Part? {
        for part in parts where type(of: part) == Part.self { return unsafe unsafeDowncast(part, to: Part.self) }
        return nil
    }
}
