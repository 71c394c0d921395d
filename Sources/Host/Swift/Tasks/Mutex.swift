internal import Lua

/// The `rl.mutex`. A mutex lies in its userdata, whose user value is the first of its `Held`; each of these refers to
/// the next one by a user value. So a place stays taken if the script drops the object without unlocking, and messages
/// can still name its holder.
struct Mutex {
    private(set) var waiters = WaitQueue()
    /// The number of free places. While this number is not 0, no task waits.
    private(set) var free: Int
    let places: Int
    /// Whether one task may hold it only once.
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

/// A place of a mutex that a task holds, or waits for. The struct lies in its userdata, whose creation site is that of
/// the call of `lock`.
struct Held {
    enum State: UInt8 { case waiting, held, released }

    var state = State.waiting
    /// Whether a task has locked it, rather than a callback or a chunk; and the creation site of that code.
    var isTasks = false
    var owner: UInt32 = 0
    /// The number of that fiber.
    var fiber = 0

    enum Value: Int, UserValue {
        case mutex, previous, next
        static let labels: [StaticString] = ["mutex", "previous", "next"]
    }

    // In the following functions, the stack has the mutex at one index and the place at another. None of these
    // allocates memory, so none can fail.

    /// Notes that the place is held, as the first one of the mutex.
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
