// Adding sources, ports and observers to modes, and removing them.

extension RunLoop {
    /// Adds an item to a mode; with `.common`, to all present and future common modes. Adding an item twice has no
    /// further effect. An invalid item is not added. CFRunLoopAddSource, CFRunLoopAddObserver.
    ///
    /// An observer or a port can be in one loop only: adding it to a second loop traps.
    public func add(_ item: Item, to mode: Mode = .default) {
        guard item.isValid else { return }
        precondition(!item.belongsElsewhere(than: self), "\(item) is in another run loop: remove it there first")
        guard mode == .common else { return enter(item, state(of: mode)) }
        if !isCommon(item) {
            lastAge += 1
            if let port = item.asPort {
                port.commonAge = lastAge
                hold(port)
            } else {
                commonItems[ObjectIdentifier(item)] = (item, lastAge)
            }
            if item.commonIn.isEmpty { item.commonIn = alone } else { item.commonIn += alone }
        }
        // A source's callback for entering a mode may remove the source again, which ends this iteration.
        for mode in commonModes where isCommon(item) { enter(item, state(of: mode)) }
    }

    /// Whether the item is in another loop, so that `add` would trap.
    public func isElsewhere(_ item: Item) -> Bool { item.belongsElsewhere(than: self) }

    /// Removes an item from a mode; with `.common`, from all common modes if it was added to them.
    /// CFRunLoopRemoveSource, CFRunLoopRemoveObserver.
    public func remove(_ item: Item, from mode: Mode = .default) {
        guard mode == .common else {
            if let mode = existingState(of: mode) { remove(item, from: mode) }
            return
        }
        guard isCommon(item) else { return }
        for name in commonModes { if let mode = existingState(of: name) { remove(item, from: mode) } }
        forgetCommonItem(item)
    }

    /// Whether an item is in a mode; with `.common`, whether it was added to the common modes. CFRunLoopContainsSource.
    public func contains(_ item: Item, in mode: Mode = .default) -> Bool {
        guard mode == .common else { return existingState(of: mode).map(item.isIn) ?? false }
        return isCommon(item)
    }

    /// Whether the loop would now notice an event of the item: it is in the running mode, or in any mode if the loop
    /// does not run.
    public func isServing(_ item: Item) -> Bool {
        guard let innermostRun else { return !item.enteredModes.isEmpty }
        return innermostRun._withUnsafeGuaranteedRef { item.isIn($0.mode) }
    }

    func enter(_ item: Item, _ mode: ModeState) {
        guard item.isValid, !item.isIn(mode) else { return }
        if let port = item.asPort {
            noteDueTimers(before: mode)
            portCount += 1
            hold(port)
        }
        mode.insert(item)
        // `didEnter` comes last: a source then calls its `schedule` callback, which may change anything.
        if item.isPort || !(item is Source) {
            if item.modes.isEmpty { item.modes = mode.alone } else { item.modes.append(mode) }
        }
        item.didEnter(mode)
    }

    func remove(_ item: Item, from mode: ModeState) {
        guard item.isIn(mode) else { return }
        mode.delete(item)
        if item.isPort { portCount -= 1 }
        if item.isPort || !(item is Source) {
            // Most items are in one mode, whose array they share.
            if item.modes.count == 1 { item.modes = [] } else { item.modes.removeAll { $0 === mode } }
        }
        item.didLeave(mode)
        if mode.portCount == 0 { spare(mode) }
        letGoIfUnused(item)
    }

    func forgetCommonItem(_ item: Item) {
        guard isCommon(item) else { return }
        if item.commonIn.count == 1 {
            item.commonIn = []
        } else {
            item.commonIn.removeAll { $0.takeUnretainedValue() === self }
        }
        if !item.isPort { commonItems[ObjectIdentifier(item)] = nil }
        letGoIfUnused(item)
    }

    func isCommon(_ item: Item) -> Bool {
        // A source may be in several loops. Each loop keeps its own table, on its own thread.
        guard item.isPort else { return commonItems[ObjectIdentifier(item)] != nil }
        return item.commonIn.contains { $0.takeUnretainedValue() === self }
    }

    /// The items that were added to the common modes, in order of addition.
    var commonItemsByAge: [Item] {
        let common = ports.elements.map { $0.takeUnretainedValue() }.filter(isCommon).map { ($0, $0.commonAge) }
        return (commonItems.values + common).sorted { $0.age < $1.age }.map(\.item)
    }

    /// Retains a port, in one table for the whole loop. Most ports are in one mode, and a program with many ports
    /// rarely lists the ports of a mode, so tables for each mode are not worth their memory.
    private func hold(_ port: PortBase) {
        guard port.place < 0 else { return }
        port.place = Int32(ports.count)
        ports.append(.passRetained(port))
    }

    private func letGoIfUnused(_ item: Item) {
        guard item.enteredModes.isEmpty, !isCommon(item) else { return }
        guard let port = item.asPort, port.place >= 0 else { return item.owner?.letGo(of: item) ?? () }
        let held = ports.base[Int(port.place)]
        ports.count -= 1
        let last = ports.base[ports.count]
        ports.base[Int(port.place)] = last
        last._withUnsafeGuaranteedRef { $0.place = port.place }
        port.place = -1
        item.owner?.letGo(of: item)
        held.release()
    }

    /// All items of a mode: sources, then ports, then observers.
    public func items(in mode: Mode) -> [Item] {
        existingState(of: mode)?.items.filter { $0.asPort?.isInner != true } ?? []
    }

    /// All items that are in a mode or were added to the common modes.
    public var allItems: [Item] {
        var seen: Set<ObjectIdentifier> = []
        let items = modes.flatMap(\.items) + commonItemsByAge
        return items.filter { seen.insert(ObjectIdentifier($0)).inserted }
    }

    /// Whether the item is in a mode of this loop or was added to its common modes.
    public func isHolding(_ item: Item) -> Bool {
        item.enteredModes.contains { $0.loop === self } || isCommon(item)
    }
}
