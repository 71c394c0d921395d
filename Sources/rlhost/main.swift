// The door: what `rlhost` does with its arguments. See docs/cli.md.

import Glibc

exit(Program.run(CommandLine.arguments))
