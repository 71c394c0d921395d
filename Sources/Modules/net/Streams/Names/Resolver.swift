internal import CStreams
internal import Glibc
internal import Linux
internal import RunLoops

/// Resolves names as other programs do, with getaddrinfo. The function blocks, so it runs on threads: at most 4 in a
/// process. A thread ends when it is idle. The end of the process does not wait for the threads.
///
/// A cancelled question gets no answer; its thread finishes in the background. Corresponds to CFHost.
public final class Resolver {
    private let mailbox: Mailbox

    // The pool of the process, made at first use.
    private static let pool = WorkPool("resolver", limit: 4)

    public enum Family: Int32, Sendable { case any = 0, v4 = 1, v6 = 2 }

    /// A question that is waiting for its answer.
    public final class Question {
        fileprivate var then: ((Result<[String], StreamFailure>) -> Void)?
        fileprivate var addresses: (([net_address]) -> Void)?
        /// `then` is not called any more.
        public func cancel() {
            then = nil
            addresses = nil
        }
    }

    init(_ loop: RunLoop) { mailbox = Mailbox(loop) }

    /// Calls `then` with the addresses as texts, without ports, in getaddrinfo's order; never within this call.
    @discardableResult
    public func resolve(
        _ name: String, family: Family = .any, keepsAlive: Bool = true,
        then: @escaping (Result<[String], StreamFailure>) -> Void
    ) -> Question {
        let question = Question()
        question.then = then
        ask(question, name, family, keepsAlive) { addresses in
            var texts: [String] = []
            for var address in addresses {
                let text = SmallAddress.text(&address, withPort: false)
                if !texts.contains(text) { texts.append(text) }
            }
            question.then?(.success(texts))
        }
        return question
    }

    /// For a stream that connects: the stream itself keeps the loop alive.
    func addresses(
        _ name: String, failed: @escaping (StreamFailure) -> Void, then: @escaping ([net_address]) -> Void
    ) -> Question {
        let question = Question()
        question.then = { if case .failure(let failure) = $0 { failed(failure) } }
        ask(question, name, .any, false, then)
        return question
    }

    private func ask(
        _ question: Question, _ name: String, _ family: Family, _ keepsAlive: Bool,
        _ then: @escaping ([net_address]) -> Void
    ) {
        question.addresses = then
        // Numeric addresses and localhost need no lookup.
        if let known = Place.host(name, port: 0).addresses, name != "*", !name.isEmpty {
            let wanted = known.filter { family == .any || $0.family == family.rawValue }
            return mailbox.later {
                if wanted.isEmpty {
                    question.then?(
                        .failure(StreamFailure("ENOTFOUND", "the host has no address of that family (\(name))")))
                } else {
                    question.addresses?(wanted)
                }
                question.cancel()
            }
        }
        let failure = mailbox.run(Self.pool, keepsAlive: keepsAlive, { Self.ask(name, family) }) { answer in
            switch answer {
            case .success(let found): question.addresses?(found.list)
            case .failure(let failure): question.then?(.failure(failure))
            }
            question.cancel()
        }
        guard failure != 0 else { return }
        mailbox.later {
            question.then?(.failure(StreamFailure(errno: failure, name)))
            question.cancel()
        }
    }

    private struct Found: @unchecked Sendable {
        // Sendable: plain memory.
        var list: [net_address]
    }

    /// Blocks until getaddrinfo returns.
    private static func ask(_ name: String, _ family: Family) -> Result<Found, StreamFailure> {
        let ascii: String
        do throws(HostName.Mistake) { ascii = try HostName.ascii(name) } catch {
            return .failure(StreamFailure(error))
        }
        var list = [net_address](repeating: net_address(), count: 64)
        var error: Int32 = 0
        let count = net_resolve(ascii, family.rawValue, &list, 64, &error)
        guard count > 0 else {
            if let refusal = Sandbox.refusal(.connect, "\(name):PORT") {
                return .failure(StreamFailure("EACCES", "\(refusal) (\(name))"))
            }
            if error > 0 { return .failure(StreamFailure(errno: error, name)) }
            return .failure(
                StreamFailure(
                    String(cString: net_resolve_error_name(error)),
                    "\(String(cString: net_resolve_error_text(error))) (\(name))"))
        }
        return .success(Found(list: Array(list.prefix(Int(count)))))
    }
}

extension Mailbox {
    /// Runs `body` in the next pass.
    func later(_ body: @escaping () -> Void) { homeLoop.perform(in: [.common]) { body() } }
}
