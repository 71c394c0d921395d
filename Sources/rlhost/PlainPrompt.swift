import LuaRunLoops

/// A prompt for input that is not a terminal.
struct PlainPrompt {
    let host: LuaHost

    init(_ host: LuaHost) { self.host = host }

    func run() -> Int32 {
        while true {
            Output.write("> ", to: 1)
            guard let line = readLine() else { break }
            if host.load(.text("return \(line)", name: "=stdin")) != nil {
                if let message = host.load(.text(line, name: "=stdin")) {
                    Output.write(message + "\n", to: 2)
                    continue
                }
            }
            _ = host.start { $0.onFailure = { Output.write($0 + "\n", to: 2) } }
        }
        return 0
    }
}
