public import Lua
public import RunLoops

/// What a feature keeps for one Lua state: told when the state is closed, made as new between two tests, and asked what the
/// things are that it has put into the loop.
///
/// A part is made when it is first asked for, by `host.part(Streams.self)`, and lives as long as its host. All calls are made on
/// the host's thread.
open class HostPart {
    // It owns us. `unowned` would be out of reach while it is being deinitialized, when it closes its state.
    public unowned(unsafe) let host: LuaHost

    public required init(_ host: LuaHost) { self.host = host }

    /// The state is being closed: stop all that could call into Lua. Called twice, before and after the last code of the script.
    open func willClose() {}

    /// A test is over: end what goes on in the background by itself, so that it is not taken for something left behind.
    open func settle() {}

    /// The test runner goes on to its next test: be as new. The loop is empty already.
    open func reset() {}

    /// Called between two callbacks after somebody has called `handle.raiseAttention()`, if the program handles signals.
    open func attend() {}

    /// The process ends, and nobody closes the state: whoever is connected with it is told.
    open func willExit() {}

    /// Somebody outside wants something of this thread; see `Interpreter.grant`.
    open func grant(_ wishes: Wishes, isRunning: Bool) {}

    /// Code that is about to be interrupted is that of somebody who has attached; see `Interpreter.isInEntry`.
    open var isInEntry: Bool { false }

    /// Whether an error that nobody handles is this part's doing: then it is told, but is nobody's to handle.
    open func hasCaused(_ failure: Failure) -> Bool { false }

    /// Says what an item in a mode is, if this part has put it there. `entry` has what any item tells.
    open func show(_ item: RunLoop.Item, in entry: inout InspectBinding.Entry) {}

    /// The same for a timer that is no script's.
    open func show(_ timer: UnsafeMutablePointer<RunLoop.TimerNode>, in entry: inout InspectBinding.Entry) {}

    /// Where the script has made such an item, for recordings; nil: that is not known.
    open func place(of item: RunLoop.Item) -> String? { nil }
}

extension LuaHost {
    /// The part of this class. Looks through the parts, which are few; what every callback needs is a property of the host.
    package func part<Part: HostPart>(_: Part.Type = Part.self) -> Part {
        if let part = existingPart(Part.self) { return part }
        let part = Part(self)
        parts.append(part)
        return part
    }

    /// The same, if there is one already.
    package func existingPart<Part: HostPart>(_: Part.Type = Part.self) -> Part? {
        for part in parts where type(of: part) == Part.self { return unsafe unsafeDowncast(part, to: Part.self) }
        return nil
    }
}
