internal import Glibc
package import Linux
internal import Lua
internal import RunLoops

/// Enters the sandbox of the process, from the main state.
extension LuaHost {
    /// Enters a sandbox for good.
    ///
    /// - Parameter script: A file that may be read, too.
    /// - Returns: The restrictions that the kernel does not enforce, as lines of text.
    package func enterSandbox(
        _ description: Sandbox.Description, script: String? = nil, goesOn: Bool = false
    ) throws(Sandbox.Failure) -> String {
        var directory: String?
        if description.allows(.connect) || description.allows(.listen) {
            do throws(SystemError) {
                directory = try RunLoop.MessagePort.prepareForSandbox(description.ports)
            } catch {
                throw Sandbox.Failure(message: "\(error)", status: 69)
            }
        }
        script?.withAnyCString { description.allow(script: $0) }
        let missing = try withSearchPaths { (lua, c) throws(Sandbox.Failure) in
            try Sandbox.enter(
                description, templates: (lua, description.allows(.modules) ? c : nil), portDirectory: directory,
                goesOn: goesOn)
        }
        guard enterSandbox(allowsModules: Sandbox.allowsModules, refusal: Sandbox.refusing) else {
            throw Sandbox.Failure(message: popMessage(), status: 1)
        }
        return missing
    }
}

/// The Swift half of rl.sandbox.
enum SandboxBinding {
    /// (kind, subject): Returns the text of the refusal if the sandbox does not allow the subject; otherwise nil.
    static func refusal(_ call: Call) -> Int32 {
        guard let name = call.string(1), let subject = call.string(2),
            let kind = Sandbox.Kind.allCases.first(where: { $0.name == name })
        else { return call.answerNil() }
        return call.answer(Sandbox.refusal(kind, subject))
    }

    /// (kind, value, …): A value is a text, or true for all of the kind.
    static func enter(_ call: Call) throws(Misuse) -> Int32 {
        let threads = Sandbox.threads
        guard threads > 0 else {
            throw Misuse("there is no /proc that shows whether other threads run: use the option --sandbox")
        }
        guard threads == 1 else {
            // The first thread of process 1 reaps orphans.
            let remedy =
                getpid() == 1
                ? "as process 1, use the option --sandbox"
                : "call it before anything that starts a thread, such as fs.read, net.resolve, a pool or rl.thread"
            throw Misuse("\(threads) threads run, and the kernel would restrict this one only: \(remedy)")
        }
        let description = Sandbox.Description()
        for index in stride(from: Int32(1), to: call.count, by: 2) {
            guard let name = call.string(index), let kind = Sandbox.Kind.allCases.first(where: { $0.name == name })
            else { continue }
            if let value = call.string(index + 1) {
                value.withAnyCString { description.allow(kind, $0) }
            } else {
                description.allow(kind, nil)
            }
        }
        do throws(Sandbox.Failure) {
            _ = try call.luaHost.enterSandbox(description)
            return call.answer(true)
        } catch {
            if error.status == 64 { throw Misuse(error.message) }
            return call.fail(error.message, code: error.status == 66 ? "ENOENT" : "ENOTSUP")
        }
    }
}
