package import Foundation
package import Testing

/// Runs each test of a suite on a thread that may block, and records how long its body took.
///
/// Swift gives tests as many threads as there are processors, so two tests that wait for programs would keep all others
/// from running.
package struct TimedTrait: SuiteTrait, TestTrait, TestScoping {
    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let meter = TestMeter()
        try await withTaskExecutorPreference(BlockingThreads.shared) {
            let start = DispatchTime.now().uptimeNanoseconds
            let (thread, processor) = (pthread_self(), threadTime())
            defer {
                // A body that waits without blocking may end on another thread, whose processor time includes other
                // tests.
                if pthread_equal(thread, pthread_self()) != 0 { meter.add(threadTime() - processor) }
                TestTimes.shared?.add(
                    test, testCase, seconds: Double(DispatchTime.now().uptimeNanoseconds - start) / 1e9,
                    processor: meter.seconds)
            }
            try await TestMeter.$current.withValue(meter) { try await function() }
        }
    }
}

extension Trait where Self == TimedTrait {
    /// Each test may block its thread, and `scripts/test` learns its true time.
    package static var timed: Self { Self() }
}

/// Adds up the processor time of a test: its own thread's, and that of the programs it has run.
package final class TestMeter: @unchecked Sendable {
    @TaskLocal package static var current: TestMeter?
    private let lock = NSLock()
    private var total = 0.0

    package var seconds: Double { lock.withLock { total } }
    package func add(_ seconds: Double) { lock.withLock { total += seconds } }

    /// Waits for a child like `waitpid`, and adds the processor time of the child and of its own children.
    @discardableResult
    package static func waitpid(_ pid: pid_t, _ status: inout Int32, _ options: Int32) -> pid_t {
        var usage = rusage()
        let result = wait4(pid, &status, options, &usage)
        if result > 0 {
            let times = [usage.ru_utime, usage.ru_stime]
            current?.add(times.reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1e6 })
        }
        return result
    }
}

/// Threads for tests that block. The number of threads is as large as needed, up to a limit.
private final class BlockingThreads: TaskExecutor, @unchecked Sendable {
    static let shared = BlockingThreads()
    /// Each test that runs is a load for the others; `scripts/test` sets its own, smaller limit.
    private static let limit = 32
    private let condition = NSCondition()
    private var jobs: [UnownedJob] = []
    private var next = 0
    private var idle = 0
    private var count = 0

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        condition.lock()
        defer { condition.unlock() }
        jobs.append(job)
        if idle >= jobs.count - next {
            condition.signal()
        } else if count < Self.limit {
            count += 1
            Thread { self.work() }.start()
        }
    }

    private func work() {
        while true {
            condition.lock()
            idle += 1
            while next == jobs.count { condition.wait() }
            idle -= 1
            let job = jobs[next]
            next += 1
            if next == jobs.count { (jobs, next) = ([], 0) }
            condition.unlock()
            job.runSynchronously(on: asUnownedTaskExecutor())
        }
    }
}

/// Writes one line of JSON for each test to the file that the environment variable RLHOST_TEST_TIMES names.
private final class TestTimes: @unchecked Sendable {
    static let shared = ProcessInfo.processInfo.environment["RLHOST_TEST_TIMES"].flatMap(TestTimes.init)
    private let file: FileHandle
    private let lock = NSLock()

    private struct Entry: Encodable {
        let suite: String
        let name: String
        let seconds: Double
        let processor: Double
    }

    init?(path: String) {
        guard FileManager.default.createFile(atPath: path, contents: nil), let file = FileHandle(forWritingAtPath: path)
        else { return nil }
        self.file = file
    }

    func add(_ test: Test, _ testCase: Test.Case?, seconds: Double, processor: Double) {
        let suite = test.id.nameComponents.dropLast().joined(separator: ".")
        var name = test.displayName ?? test.name
        if let testCase, testCase.isParameterized { name += " (\(Self.arguments(of: testCase)))" }
        let entry = Entry(suite: suite, name: name, seconds: seconds, processor: processor)
        guard let line = try? JSONEncoder().encode(entry) else { return }
        lock.withLock { file.write(line + [10]) }
    }

    /// The library does not publish the arguments of a case; they are for readers only.
    private static func arguments(of testCase: Test.Case) -> String {
        func values(_ reflection: Mirror) -> [String] {
            reflection.children.flatMap { child in
                child.label == "value"
                    ? ["\(child.value)"] : values(Mirror(reflecting: child.value))
            }
        }
        let text = values(Mirror(reflecting: testCase)).joined(separator: ", ").replacing("\n", with: " ")
        return String(text.prefix(80))
    }
}
