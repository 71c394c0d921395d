internal import CLinux
internal import Glibc
internal import Synchronization

extension RunLoop.Recorder {
    static let someAreOn = Atomic(0)
    private static let lastNumber = Atomic<UInt16>(0)

    /// Turns the recorder on. Returns false if there is no memory.
    ///
    /// - Parameters:
    ///   - anchor: The present time.
    ///   - usesTicks: Whether records have ticks rather than nanoseconds.
    ///   - modes: The labels of the modes of the runs in progress.
    mutating func turnOn(_ anchor: Anchor, usesTicks: Bool, modes: [UInt32]) -> Bool {
        if isOn { return true }
        if ring == nil {
            let size = Self.capacity * MemoryLayout<Record>.stride
            guard let memory = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                memory != MAP_FAILED
            else { return false }
            ring = memory.bindMemory(to: Record.self, capacity: Self.capacity)
            number =
                linux_is_main_thread() != 0
                ? 0 : Self.lastNumber.wrappingAdd(1, ordering: .relaxed).newValue
            (lastFlow, requestFlows) = (flowBase, flowBase | Self.counted)
        }
        self.usesTicks = usesTicks
        beginCheckingDelays()
        setNotable()
        self.anchor = anchor
        (moment, beforeLook, sleepBegan) = (0, 0, .max)
        setLimit()
        forgetSubjects()
        start = next
        if requestLabel == 0 { requestLabel = Self.label(.init("request", "request")) }
        for mode in modes {
            enter(Level(object: mode, isRun: true))
            outer.append(Call())
        }
        goOn(with: Call())
        levelCountAtStart = min(levelCount, Self.deepest)
        levelsAtStart.update(from: levels, count: levelCountAtStart)
        beginsAt = .max
        isOn = true
        Self.someAreOn.wrappingAdd(1, ordering: .relaxed)
        return true
    }

    mutating func turnOff() {
        guard isOn else { return }
        settle()
        isOn = false
        quietSince = 0
        goOn(with: Call())
        outer = []
        levelCount = 0
        subjects = nil
        readNoMore()
        Self.someAreOn.wrappingSubtract(1, ordering: .relaxed)
    }

    /// Turns the recorder off for good. Frees only the memory that no other thread may still be reading.
    mutating func endWriting() {
        turnOff()
        slowHandler = nil
        lookHandler = nil
    }

    /// Sets a function that reads the records. The recorder calls it on the loop's thread before it overwrites records
    /// that the function has not read, and at most a second after anything was recorded; the first calls come earlier.
    /// The function returns whether it wants to be called again, and must not use the loop.
    package mutating func setReader(_ new: @escaping () -> Bool) {
        reader = new
        beginReading()
    }

    package mutating func dropReader() { readNoMore() }

    /// Forgets all records, for a new recording, such as that of the next test.
    package mutating func empty() {
        pass = 0
        next = 0
        start = 0
        lastFlow = flowBase
        lastRequestRecord = .max
        goOn(with: Call())
        setLimit()
    }

    mutating func watchSlow(
        _ nanoseconds: Int64,
        _ handler: @escaping (_ label: UInt32, _ began: Int64, _ nanoseconds: Int64, _ delay: Int64) -> Void
    ) {
        slow = ticks(nanoseconds)
        slowHandler = handler
    }
}
