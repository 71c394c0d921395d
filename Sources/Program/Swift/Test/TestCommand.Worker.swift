import Glibc
import Lua
import LuaRunLoops
import LuaTesting
import RunLoops

extension TestCommand {
    /// The process in which tests run. The runner sends lines with the names of test files and their settings; the
    /// worker sends the results back.
    struct Worker {
        let options: Options
        /// The seed for random choices that cannot be seeded again for each file.
        let seed: UInt32

        func run() -> Int32 {
            let channel = LuaHost.becomeWorker(seed: seed)
            let world = TestWorld()
            while let line = readCommand(channel) {
                let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
                if let message = runFile(fields, world) {
                    Program.report(message)
                    return 1
                }
                LuaHost.tellClosed()
            }
            return 0
        }

        /// Runs each file in a Lua state of its own.
        private func runFile(_ fields: [String], _ world: TestWorld) -> String? {
            guard let host = LuaHost(loop: world.loop, batteries: TestCommand.batteries) else {
                return "cannot create state: not enough memory"
            }
            world.adopt(host)
            LuaHost.script = fields.first
            defer { host.close() }
            if let message = host.openLibraries(ignoringEnvironment: options.ignoresEnvironment) { return message }
            // The Lua code that runs before the file: LUA_INIT, -l and -e.
            let worker = "return require('runloop.test.worker').run(...)"
            return host.load(.own(worker)) ?? host.callLoaded(fields + preparations)
        }

        /// Pairs of texts. The first of a pair is "file", "require", "global" or the name of a chunk; the second is the
        /// file's name, the module, the global's name or the chunk's text.
        private var preparations: [String] {
            var pairs: [String] = []
            switch options.ignoresEnvironment ? nil : Initialization()?.chunk {
            case .file(let path): pairs += ["file", path]
            case .text(let text, let name): pairs += [name, text]
            default: break
            }
            for step in options.steps {
                switch step {
                case .execute(let text): pairs += ["=(command line)", text]
                case .print(let text): pairs += ["=(command line)", "print(\(text)\n)"]
                case .require(let name, let global): pairs += ["require", name, "global", global]
                case .warnings: pairs += ["=(command line)", "warn '@on'"]
                }
            }
            return pairs
        }

        private func readCommand(_ channel: Int32) -> String? {
            var bytes: [UInt8] = []
            var byte: UInt8 = 0
            while true {
                let count = read(channel, &byte, 1)
                if count < 0, errno == EINTR { continue }
                guard count == 1 else { return nil }
                // The name of a file need not be UTF-8.
                if byte == UInt8(ascii: "\n") { return bytes.withUnsafeBytes { String(anyBytes: $0) } }
                bytes.append(byte)
            }
        }
    }
}
