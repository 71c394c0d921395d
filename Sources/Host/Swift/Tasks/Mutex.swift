internal import Lua

/// A mutex of `rl.mutex`, stored in its userdata. The userdata's user value is the first of the mutex's `Held` objects,
/// which form a linked list through their user values. So if a script drops a `Held` without unlocking, the place stays
/// taken, and messages can still name its holder.
struct Mutex {
    private(set) var waiters = WaitQueue()
    /// The number of free places. While this number is not 0, no task waits.
    private(set) var free: Int
    let places: Int
    /// Whether a task may hold the mutex only once.
    let isExclusive: Bool

    init(places: Int?) {
        free = places ?? 1
        self.places = places ?? 1
        isExclusive = places == nil
    }

    typealias Pointer = UnsafeMutablePointer<Mutex>

    /// Takes a place. Returns false if no place is free.
    @inline(__always)
    mutating func take() -> Bool {
        guard free > 0 else { return false }
        free -= 1
        return true
    }

    mutating func giveBack() { free += 1 }

    /// Returns the queue of a mutex's waiters.
    @inline(__always)
    static func queue(_ mutex: Pointer) -> UnsafeMutablePointer<WaitQueue> {
        // The queue is the first field.
        UnsafeMutableRawPointer(mutex).assumingMemoryBound(to: WaitQueue.self)
    }

    enum Value: Int, UserValue {
        case first
        static let labels: [StaticString] = ["first"]
    }
}

/// A place of a mutex that a task holds or waits for. The struct is in a userdata, whose creation site is the call of
/// `lock`.
struct Held {
    enum State: UInt8 { case waiting, held, released }

    var state = State.waiting
    /// Whether a task holds the place, rather than a callback or a chunk; `owner` is the creation site of that task,
    /// callback or chunk.
    var isTasks = false
    var owner: UInt32 = 0
    /// The number of the fiber that holds the place.
    var fiber = 0

    enum Value: Int, UserValue {
        case mutex, previous, next
        static let labels: [StaticString] = ["mutex", "previous", "next"]
    }

    // In the following functions, the stack has the mutex at one index and the place (the userdata of a `Held`) at
    // another. These functions allocate no memory, so they cannot fail.

    /// Marks the place as held, and puts it at the front of the mutex's list.
    static func take(_ stack: Stack, place: Int32, mutex: Int32) {
        stack.pushUserValue(Mutex.Value.first.number, of: mutex)
        if stack.type(-1) == .userdata {
            stack.pushCopy(of: place)
            stack.setUserValue(Value.previous.number, of: -2)
        }
        stack.setUserValue(Value.next.number, of: place)
        stack.pushCopy(of: place)
        stack.setUserValue(Mutex.Value.first.number, of: mutex)
        stack.box(place)?.payload(as: Held.self).pointee.state = .held
    }

    /// Takes the place out of the mutex's list.
    static func release(_ stack: Stack, place: Int32, mutex: Int32) {
        stack.pushUserValue(Value.next.number, of: place)
        stack.pushUserValue(Value.previous.number, of: place)
        let (next, previous) = (stack.top - 1, stack.top)
        if stack.type(next) == .userdata {
            stack.pushCopy(of: previous)
            stack.setUserValue(Value.previous.number, of: next)
        }
        stack.pushCopy(of: next)
        if stack.type(previous) == .userdata {
            stack.setUserValue(Value.next.number, of: previous)
        } else {
            stack.setUserValue(Mutex.Value.first.number, of: mutex)
        }
        stack.pop(2)
        for value in [Value.previous, .next] {
            stack.pushNil()
            stack.setUserValue(value.number, of: place)
        }
        stack.box(place)?.payload(as: Held.self).pointee.state = .released
    }
}
