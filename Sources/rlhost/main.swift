// The door: what `rlhost` does with its arguments. See docs/cli.md.

import CLinux
import Glibc
import LuaRunLoops

linux_keep_standard_descriptors()

// Not CommandLine.arguments: arguments are bytes, and those that are no text would be repaired.
exit(
    Program.run(
        (0..<Int(CommandLine.argc)).compactMap { index in
            CommandLine.unsafeArgv[index].map { ProcessText.text($0) }
        }))
