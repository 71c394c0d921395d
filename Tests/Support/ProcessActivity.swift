package import Foundation

/// Waits until a process computes or sleeps, instead of for a fixed time.
package enum ProcessActivity {
    /// Waits until the process sleeps, or has computed for a while, and so has surely begun its work.
    package static func settle(_ process: pid_t, limit: Double = 10) {
        let start = processorTime(of: process)
        var asleep = 0
        wait(limit) {
            asleep = isAsleep(process) ? asleep + 1 : 0
            return asleep == 4 || processorTime(of: process) - start > 0.05
        }
    }

    /// Waits until the process has computed for some seconds more.
    package static func awaitWork(_ process: pid_t, seconds: Double = 0.05, limit: Double = 10) {
        let start = processorTime(of: process)
        wait(limit) { processorTime(of: process) - start >= seconds }
    }

    /// Waits until several checks in a row find the process asleep, however much it computes before.
    package static func awaitRest(_ process: pid_t, limit: Double = 10) {
        var asleep = 0
        wait(limit) {
            asleep = isAsleep(process) ? asleep + 1 : 0
            return asleep == 4
        }
    }

    private static func wait(_ limit: Double, until condition: () -> Bool) {
        let end = DispatchTime.now().uptimeNanoseconds + UInt64(limit * 1e9)
        while !condition(), DispatchTime.now().uptimeNanoseconds < end { usleep(3_000) }
    }

    /// No thread runs, or waits for a processor.
    private static func isAsleep(_ process: pid_t) -> Bool {
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")) ?? []
        return threads.allSatisfy { thread in
            let stat = (try? String(contentsOfFile: "/proc/\(process)/task/\(thread)/stat", encoding: .utf8)) ?? ""
            // The state follows the name, which is in parentheses.
            let state = stat.split(separator: ")").last?.split(separator: " ").first ?? ""
            return state != "R" && state != "D"
        }
    }

    /// Seconds; 0 if the process has ended.
    private static func processorTime(of process: pid_t) -> Double {
        var (clock, time) = (clockid_t(), timespec())
        guard clock_getcpuclockid(process, &clock) == 0, clock_gettime(clock, &time) == 0 else { return 0 }
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}

extension Binary.Process {
    package func settle() { ProcessActivity.settle(pid) }
}
