internal import Glibc
package import Linux
internal import Lua
internal import RunLoops

/// The sandbox of a process, as its main state enters it.
extension LuaHost {
    /// Enters a sandbox for good.
    ///
    /// - Parameters:
    ///   - script: A file that may be read, too.
    ///   - ports: Names of message ports that this process takes before it enters the sandbox.
    /// - Returns: The restrictions that the kernel does not enforce, as lines of text.
    package func enterSandbox(
        _ allowances: [Sandbox.Allowance], script: String? = nil, ports: [String] = [], goesOn: Bool = false
    ) throws(Sandbox.Failure) -> String {
        let hasModules = allowances.contains { $0.kind == .modules }
        var directory: String?
        if allowances.contains(where: { $0.kind == .connect || $0.kind == .listen }) {
            do throws(SystemError) {
                directory = try RunLoop.MessagePort.prepareForSandbox(ports)
            } catch {
                throw Sandbox.Failure(message: "\(error)", status: 69)
            }
        }
        let missing = try withSearchPaths { (lua, c) throws(Sandbox.Failure) in
            try Sandbox.enter(
                allowances, script: script?.cBytes, templates: (lua, hasModules ? c : nil), portDirectory: directory,
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
        var allowances: [Sandbox.Allowance] = [], ports: [String] = []
        for index in stride(from: Int32(1), to: call.count, by: 2) {
            guard let name = call.string(index), let kind = Sandbox.Kind.allCases.first(where: { $0.name == name })
            else { continue }
            let value = call.string(index + 1)
            allowances.append(.init(kind, value?.cBytes))
            if kind == .listen, let value, value.hasPrefix("port:") { ports.append(String(value.dropFirst(5))) }
        }
        do throws(Sandbox.Failure) {
            _ = try call.luaHost.enterSandbox(allowances, ports: ports)
            return call.answer(true)
        } catch {
            if error.status == 64 { throw Misuse(error.message) }
            return call.fail(error.message, code: error.status == 66 ? "ENOENT" : "ENOTSUP")
        }
    }
}
