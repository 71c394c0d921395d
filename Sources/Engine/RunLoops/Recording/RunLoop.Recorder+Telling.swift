// Records that are not written by the loop itself: sends and their numbers, marks, and events of modules.

extension RunLoop.Recorder {
    // MARK: Events of scripts and features

    package mutating func mark(_ object: UInt32) {
        moment = stamp()
        tell(Record(.mark, moment, object: object))
    }

    /// Records that bytes went through a stream. Consecutive reads or writes share a record.
    ///
    /// - Parameter number: The number of the connection; 0 if none.
    mutating func bytes(_ object: UInt32, _ count: Int, out: Bool, of number: UInt32) {
        let flags = out ? Flags.out : 0
        let count = UInt64(max(0, count))
        if lastBytesRecord == next, next > firstUntold, let ring {
            let last = ring + Int(truncatingIfNeeded: (next &- 1) & UInt64(Self.capacity - 1))
            if last.pointee.object == object, last.pointee.flags == flags, last.pointee.flow == number {
                last.pointee.a &+= count
                return
            }
        }
        tell(Record(.bytes, freshMoment(), flags: flags, object: object, a: count, flow: number))
        lastBytesRecord = next
    }

    /// Records the beginning of a long operation. Returns the operation's number, for `closes`.
    mutating func opens(_ object: UInt32) -> UInt32 {
        let number = nextFlow()
        moment = stamp()
        tell(Record(.opens, moment, object: object, flow: number))
        return number
    }

    mutating func belongs(_ number: UInt32, _ object: UInt32) {
        tell(Record(.belongs, freshMoment(), object: object, flow: number))
    }

    mutating func closes(_ number: UInt32, _ object: UInt32, _ result: UInt64, failed: Bool) {
        moment = stamp()
        tell(Record(.closes, moment, flags: failed ? Flags.failed : 0, object: object, a: result, flow: number))
    }

    /// Records that the loop is about to end.
    package mutating func ends() {
        guard isOn else { return }
        moment = stamp()
        tell(Record(.ended, moment))
    }

    // MARK: Flows

    // A flow number has 32 bits: ten for the recorder, one for the kind, 21 for the count.
    static let counted: UInt32 = 1 << 21
    var flowBase: UInt32 { UInt32(number & 1023) << 22 }

    /// The flow of a request of this loop.
    @inline(__always)
    func flow(ofRequest number: UInt64) -> UInt32 {
        requestFlows | UInt32(truncatingIfNeeded: number) & (Self.counted - 1)
    }

    /// Records that this thread queues a request for its own loop. Consecutive requests share a record.
    @inline(__always)
    mutating func queues(request number: UInt64) {
        let flow = flow(ofRequest: number)
        if !sendsHere(flow) { queuesApart(flow) }
    }

    @inline(never)
    private mutating func queuesApart(_ flow: UInt32) {
        if lastRequestRecord == next, next > firstUntold, let ring {
            let last = ring + Int(truncatingIfNeeded: (next &- 1) & UInt64(Self.capacity - 1))
            if last.pointee.flow &+ UInt32(truncatingIfNeeded: last.pointee.a) == flow {
                last.pointee.a &+= 1
                return
            }
        }
        if state.isPending, open.pointee.flags & Flags.sends != 0,
            UInt32(truncatingIfNeeded: open.pointee.a >> 32) &+ 1 == flow
        {
            return queuesSecond(flow)
        }
        tellOut(Record(.out, freshMoment(), a: 1, flow: flow))
        lastRequestRecord = next
    }

    /// Moves the send in the callback's record into a separate record, which counts further sends.
    private mutating func queuesSecond(_ flow: UInt32) {
        open.pointee.flags &= ~Flags.sends
        // The 1 is in the place of the callback's length until the length is known. It also marks that the record has
        // no room for another send.
        open.pointee.a = 1
        insert(Record(.out, open.pointee.time, flags: Flags.inside, a: 2, flow: flow &- 1))
        lastRequestRecord = next
    }

    /// Records a send to another loop or to this one. Returns the flow, for the receiver's record.
    ///
    /// - Parameter isOwn: True for a send to this loop. The loop sees it only after the current callback, so it gets
    ///   the time at which the callback began, without reading the clock.
    mutating func sends(_ object: UInt32 = 0, isOwn: Bool = false) -> UInt32 {
        let flow = nextFlow()
        sends(object, flow: flow, isOwn: isOwn)
        return flow
    }

    /// Records that this thread wakes another loop; see `RunLoop.noteWaking`.
    mutating func wakes(_ call: RunLoop.Handle.WakingCall) -> UInt64 {
        let label = wakingLabels[call.rawValue]
        return UInt64(label != 0 ? label : makeLabel(call)) << 32 | UInt64(sends())
    }

    @inline(never)
    private func makeLabel(_ call: RunLoop.Handle.WakingCall) -> UInt32 {
        let label = Self.label(.init("other", "thread \(name) · \(call.word)"))
        wakingLabels[call.rawValue] = label
        return label
    }

    /// Stores a send to this loop in the callback's record. Returns nil if the record has no room.
    @inline(__always)
    mutating func sendsHere() -> UInt32? {
        guard hasRoom else { return nil }
        let flow = nextFlow()
        open.pointee.setSends(flow)
        return flow
    }

    @inline(__always)
    mutating func nextFlow() -> UInt32 {
        lastFlow &+= 1
        // The count wraps around.
        if lastFlow & (Self.counted - 1) == 0 { lastFlow = flowBase | 1 }
        return lastFlow
    }

    mutating func sends(_ object: UInt32, flow: UInt32, isOwn: Bool = false) {
        if !isOwn { moment = stamp() }
        tellOut(Record(.out, freshMoment(), object: object, a: 1, flow: flow))
    }
}
