internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops

/// Writes lines to a file of limited size, to which any number of processes and threads write.
///
/// A writer holds the file's own lock, flock(2), and has checked that the name still leads to the file. So no line is
/// written to a file that another process is about to rename, and only the holder renames.
enum LogRotation {
    /// How long to wait for a lock, in steps of a millisecond. The process that holds a lock only writes a line, but
    /// may be stopped.
    private static let patience = 200

    struct Outcome {
        /// The descriptor of the file that has the name now: the given one or a new one.
        var descriptor: Int32
        /// Why the line was not written.
        var failure: SystemError?
        /// Why the files were not renamed.
        var refusal: SystemError?
    }

    /// rotate(descriptor, path, line, size, number of old files, whether files may be renamed now): writes a line.
    /// Returns the descriptor to use from now on, the reason why the line was not written or nil, and the reason why
    /// the files were not renamed or nil.
    static func write(_ call: Call) throws(Misuse) -> Int32 {
        let descriptor = try call.number32()
        let path = try call.argument(2, Text.self)
        guard let line = call.bytes(3).map({ Array($0) }) else { return call.nothing() }
        let limit = try call.argument(4, Integer.self)
        let keep = try call.argument(5, Integer.self)
        let outcome = write(line, descriptor, path, limit: limit, keep: keep, mayRename: call.stack.boolean(6))
        var program = ValueProgram()
        program.append(Int(outcome.descriptor))
        program.append(outcome.failure?.description)
        program.append(outcome.refusal?.description)
        return call.answer(program)
    }

    private static func write(
        _ line: [UInt8], _ descriptor: Int32, _ path: String, limit: Int, keep: Int, mayRename: Bool
    ) -> Outcome {
        var outcome = Outcome(descriptor: descriptor)
        var information = stat()
        var renames = mayRename
        while true {
            if outcome.descriptor >= 0 {
                lock(outcome.descriptor)
                // If the path does not lead to this file, another writer has renamed the file, and the line must go to
                // the new one.
                if fstat(outcome.descriptor, &information) == 0, leads(path, to: information) {
                    let isFull = information.st_size > 0 && Int(information.st_size) + line.count > limit
                    guard isFull, renames else { break }
                    outcome.refusal = rename(path, keep)
                    renames = outcome.refusal == nil
                    continue
                }
            }
            guard let fresh = open(path, &outcome) else {
                // If no descriptor is free, write to the old file if it still has a name; a line in a file without a
                // name would be lost.
                let isKept = outcome.descriptor >= 0 && fstat(outcome.descriptor, &information) == 0
                guard isKept, information.st_nlink > 0 else { return outcome }
                outcome.refusal = outcome.failure
                break
            }
            leave(outcome.descriptor)
            outcome.descriptor = fresh
        }
        let failure = line.withUnsafeBytes { Descriptor.write($0, to: outcome.descriptor) }
        outcome.failure = failure == 0 ? nil : SystemError("write", "", errno: failure)
        _ = flock(outcome.descriptor, LOCK_UN)
        return outcome
    }

    private static func open(_ path: String, _ outcome: inout Outcome) -> Int32? {
        do throws(SystemError) {
            return try OutputFile.appending(to: path.cBytes, named: path, mode: 0o640).release()
        } catch {
            outcome.failure = error
            return nil
        }
    }

    private static func lock(_ descriptor: Int32) {
        for _ in 0..<patience {
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK { return }
            usleep(1000)
        }
    }

    private static func leave(_ descriptor: Int32) {
        guard descriptor >= 0 else { return }
        _ = flock(descriptor, LOCK_UN)
        Descriptor.close(descriptor)
    }

    private static func leads(_ path: String, to information: stat) -> Bool {
        var named = stat()
        return path.withAnyCString { stat($0, &named) } == 0 && named.st_ino == information.st_ino
            && named.st_dev == information.st_dev
    }

    /// Renames the file to `path.1`, `path.1` to `path.2`, and so on up to the first free number. If a rename fails,
    /// the files with higher numbers keep their names.
    private static func rename(_ path: String, _ keep: Int) -> SystemError? {
        guard keep > 0 else {
            return path.withAnyCString { unlink($0) } == 0 ? nil : SystemError("unlink", path)
        }
        func name(_ number: Int) -> String { number == 0 ? path : "\(path).\(number)" }
        var last = 1
        while last < keep, name(last).withAnyCString({ access($0, F_OK) }) == 0 { last += 1 }
        for number in (0..<last).reversed() {
            let (from, to) = (name(number), name(number + 1))
            let isDone = from.withAnyCString { from in to.withAnyCString { Glibc.rename(from, $0) } } == 0
            if !isDone { return SystemError("rename", from) }
        }
        return nil
    }
}
