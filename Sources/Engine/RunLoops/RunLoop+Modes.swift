extension RunLoop {
    /// The names of these modes: the default mode; modes that hold something, run, or were created since the last pass
    /// began; common modes that have ever held something. CFRunLoopCopyAllModes.
    public var modeNames: [Mode] {
        if handle.mayHaveMail { takeMail() }
        let requested = requestedModes
        let pass = counters.pointee.passes
        return modes.filter { $0.birth == pass || !isUnused($0, requested) }.map(\.name)
    }

    /// The modes for which `.common` stands.
    public var commonModeNames: [Mode] { commonModes }

    /// Whether the loop has ever run in a mode.
    public func hasRun(in mode: Mode) -> Bool {
        existingState(of: mode)?.hasRun ?? false || modesThatRan.contains(mode)
    }

    /// Makes a mode common, permanently. All items that were added to the common modes are added to it.
    /// CFRunLoopAddCommonMode.
    public func addCommonMode(_ mode: Mode) {
        precondition(mode != .common, "\".common\" is not a mode")
        guard !commonModes.contains(mode) else { return }
        commonModes.append(mode)
        existingState(of: mode)?.isCommon = true
        commonQueue = nil
        let items = commonItemsByAge
        let queues = timerQueues.filter { $0.isCommon && $0.count > 0 }
        guard !items.isEmpty || !queues.isEmpty else { return }
        let mode = state(of: mode)
        for item in items where isCommon(item) { enter(item, mode) }
        for queue in queues where !queue.serves(mode) {
            queue.modes.append(mode)
            mode.timers.append(.passUnretained(queue))
            noteDueTimers(queue)
        }
        commonQueue = timerQueues.first { queue in
            queue.isCommon && queue.modes.count == commonModes.count && queue.modes.allSatisfy(\.isCommon)
        }.map(Unmanaged.passUnretained)
    }

    /// The date of the mode's next timer; nil if the mode has no timer. CFRunLoopGetNextTimerFireDate.
    ///
    /// While a timer fires, its date is still the date of this fire. O(number of the mode's timer queues).
    public func nextFireDate(in mode: Mode) -> Instant? {
        guard mode != .common, let mode = existingState(of: mode) else { return nil }
        spillBatch()
        var date = Int64.max
        for queue in mode.timers.elements { date = min(date, queue._withUnsafeGuaranteedRef { $0.heap.firstDate }) }
        for node in firingTimers where node.pointee.queue?.takeUnretainedValue().serves(mode) ?? false {
            date = min(date, node.pointee.fireDate)
        }
        return date == .max ? nil : Instant(nanoseconds: date)
    }

    // Few modes are searched one by one instead of in a dictionary: comparing short strings is faster than hashing
    // them.
    func existingState(of name: Mode) -> ModeState? {
        modesByName.isEmpty ? modes.first { $0.name == name } : modesByName[name]
    }

    func state(of name: Mode) -> ModeState {
        if let state = existingState(of: name) { return state }
        if modes.count >= modeLimit { dropUnusedModes() }
        return makeState(of: name)
    }

    /// Creates several modes that hold nothing yet. Drops unused modes first, since a new mode holds nothing yet, and
    /// would be dropped as well.
    func makeStates(of names: [Mode]) {
        if modes.count >= modeLimit { dropUnusedModes() }
        for name in names where name != .common && existingState(of: name) == nil { _ = makeState(of: name) }
    }

    private func makeState(of name: Mode) -> ModeState {
        let state = ModeState(name: name, loop: self)
        state.isCommon = commonModes.contains(name)
        modes.append(state)
        if modes.count == Self.fewModes + 1 {
            for mode in modes { modesByName[mode.name] = mode }
        } else if modes.count > Self.fewModes {
            modesByName[name] = state
        }
        return state
    }

    /// Whether a caller could not notice that the mode is dropped. Common modes and the default mode are never unused.
    private func isUnused(_ mode: ModeState, _ requested: Set<Mode>) -> Bool {
        mode.isVacant && !mode.isCommon && mode.name != .default && !runs.contains { $0.mode === mode }
            && !requested.contains(mode.name)
    }

    /// The modes for which requests are queued.
    private var requestedModes: Set<Mode> {
        Set(requestQueues.elements.flatMap { $0._withUnsafeGuaranteedRef { $0.count > 0 ? $0.modes : [] } })
    }

    /// Drops all unused modes together once there are many, since a program may create a mode for each conversation.
    /// The amortized cost for each mode is small, and leaving a mode costs nothing.
    private func dropUnusedModes() {
        dropEmptyTimerQueues()
        dropEmptyRequestQueues()
        let requested = requestedModes
        modes.removeAll { mode in
            guard isUnused(mode, requested) else { return false }
            mode.alone = []  // break the mode's cycle with itself
            modesByName[mode.name] = nil
            if mode.isSpare { modesToSpare.removeAll { $0 === mode } }
            if mode.hasRun { modesThatRan.insert(mode.name) }
            return true
        }
        if modes.count <= Self.fewModes { modesByName = [:] }
        modeLimit = max(Self.usualModes, modes.count * 2)
    }

    /// Up to this count, modes are found by comparing names.
    private static let fewModes = 16
    /// Up to this count, unused modes are kept.
    static let usualModes = 64

    /// Notes that a mode has lost its last port. The mode's descriptor set is kept for future ports, but only for the
    /// last 16 such modes: a program that creates a mode for each conversation must not run out of descriptors.
    func spare(_ mode: ModeState) {
        guard !mode.isSpare, !mode.isCommon, mode.descriptors != nil else { return }
        mode.isSpare = true
        modesToSpare.append(mode)
        guard modesToSpare.count > 16 else { return }
        let oldest = modesToSpare.removeFirst()
        oldest.isSpare = false
        if oldest.portCount == 0, !oldest.isCommon, !runs.contains(where: { $0.mode === oldest }) {
            oldest.dropDescriptorSet()
        }
    }

    /// Whether a run in the mode would return at once because the mode holds nothing to wait for.
    public func isEmpty(in mode: Mode) -> Bool { existingState(of: mode).map { isEmpty($0) } ?? true }

    /// Whether nothing can happen in the mode. Observers do not count; requests that would run in it do.
    func isEmpty(_ mode: ModeState) -> Bool {
        if mode.holdsItems || mode.mayAnswer && awaitsAnswer?(self) ?? false { return false }
        if handle.mayHaveMail { takeMail() }
        return !holdsRequests(mode) && !(staysForOthers?(self, mode.name) ?? false)
    }
}
