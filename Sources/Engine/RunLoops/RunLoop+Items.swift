// Sources, ports and observers in modes.

extension RunLoop {
    /// Adds an item to a mode; `.common` for all common modes, those to come included. Adding twice is adding once. An
    /// invalid item stays out. CFRunLoopAddSource, CFRunLoopAddObserver.
    ///
    /// An observer or a port can be in one loop only; adding it to a second is a programming error.
    public func add(_ item: Item, to mode: Mode = .default) {
        guard item.isValid else { return }
        precondition(!item.belongsElsewhere(than: self), "\(item) is in another run loop: remove it there first")
        guard mode == .common else { return enter(item, state(of: mode)) }
        if !isCommon(item) {
            lastAge += 1
            if let port = item as? PortBase {
                port.commonAge = lastAge
                hold(port)
            } else {
                commonItems[ObjectIdentifier(item)] = (item, lastAge)
            }
            if item.commonIn.isEmpty { item.commonIn = alone } else { item.commonIn += alone }
        }
        // Until a source, told that it enters, takes itself out again.
        for mode in commonModes where isCommon(item) { enter(item, state(of: mode)) }
    }

    /// Whether the item belongs to a loop other than this one, so that it cannot be added.
    public func isElsewhere(_ item: Item) -> Bool { item.belongsElsewhere(than: self) }

    /// Takes an item out of a mode. Out of `.common`: out of all common modes, if it was added to them.
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

    /// Whether it is in a mode; for `.common`, whether it was added to the common modes. CFRunLoopContainsSource.
    public func contains(_ item: Item, in mode: Mode = .default) -> Bool {
        guard mode == .common else { return existingState(of: mode).map(item.isIn) ?? false }
        return isCommon(item)
    }

    /// Whether what happens to the item is noticed now: it is in the mode that runs, or, while none does, in any.
    public func isServing(_ item: Item) -> Bool {
        guard let innermostRun else { return !item.enteredModes.isEmpty }
        return innermostRun._withUnsafeGuaranteedRef { item.isIn($0.mode) }
    }

    func enter(_ item: Item, _ mode: ModeState) {
        guard item.isValid, !item.isIn(mode) else { return }
        if let port = item as? PortBase {
            noteDueTimers(before: mode)
            portCount += 1
            hold(port)
        }
        mode.insert(item)
        // A source tells its callback, which may do anything; so this comes last.
        if !(item is Source) {
            if item.modes.isEmpty { item.modes = mode.alone } else { item.modes.append(mode) }
        }
        item.didEnter(mode)
    }

    func remove(_ item: Item, from mode: ModeState) {
        guard item.isIn(mode) else { return }
        mode.delete(item)
        if item is PortBase { portCount -= 1 }
        if !(item is Source) { item.modes.removeAll { $0 === mode } }
        item.didLeave(mode)
        if mode.portCount == 0 { spare(mode) }
        letGoIfUnused(item)
    }

    func forgetCommonItem(_ item: Item) {
        guard isCommon(item) else { return }
        item.commonIn.removeAll { $0.takeUnretainedValue() === self }
        if !(item is PortBase) { commonItems[ObjectIdentifier(item)] = nil }
        letGoIfUnused(item)
    }

    func isCommon(_ item: Item) -> Bool {
        // A source may be in several loops, each of which keeps its own books, on its own thread.
        guard item is PortBase else { return commonItems[ObjectIdentifier(item)] != nil }
        return item.commonIn.contains { $0.takeUnretainedValue() === self }
    }

    /// The items that were added to the common modes, in that order.
    var commonItemsByAge: [Item] {
        let common = ports.elements.map { $0.takeUnretainedValue() }.filter(isCommon).map { ($0, $0.commonAge) }
        return (commonItems.values + common).sorted { $0.age < $1.age }.map(\.item)
    }

    /// Keeps a port alive. In a table of the loop's, not in sets of its modes: most ports are in one mode, and few in a program
    /// that has many of them are ever asked for.
    private func hold(_ port: PortBase) {
        guard port.place < 0 else { return }
        port.place = Int32(ports.count)
        ports.append(.passRetained(port))
    }

    private func letGoIfUnused(_ item: Item) {
        guard item.enteredModes.isEmpty, !isCommon(item) else { return }
        guard let port = item as? PortBase, port.place >= 0 else { return item.owner?.letGo(of: item) ?? () }
        let held = ports.base[Int(port.place)]
        ports.count -= 1
        let last = ports.base[ports.count]
        ports.base[Int(port.place)] = last
        last._withUnsafeGuaranteedRef { $0.place = port.place }
        port.place = -1
        item.owner?.letGo(of: item)
        held.release()
    }

    /// Everything in one mode, in no special order of kinds: sources, then ports, then observers.
    public func items(in mode: Mode) -> [Item] {
        existingState(of: mode)?.items.filter { ($0 as? PortBase)?.isInner != true } ?? []
    }

    /// Everything that is in a mode, or would be in those that become common.
    public var allItems: [Item] {
        var seen: Set<ObjectIdentifier> = []
        let items = modes.flatMap(\.items) + commonItemsByAge
        return items.filter { seen.insert(ObjectIdentifier($0)).inserted }
    }

    /// Whether the item is in a mode, or would be in those that become common.
    public func isHolding(_ item: Item) -> Bool {
        item.enteredModes.contains { $0.loop === self } || isCommon(item)
    }
}
