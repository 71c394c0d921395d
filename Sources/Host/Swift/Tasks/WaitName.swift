/// Names of public calls, such as `fs.read`, for messages and recordings. If a module's own code waits inside such a
/// call, the wait has the call's name. Recordings keep the addresses of these texts, so they form a fixed list.
public enum WaitName {
    private static let names: [StaticString] = [
        "process.run", "process.wait_signal", "program:wait", "watcher:next", "terminal:read_key", "http.get",
        "http.post",
        "http.fetch", "http.open", "client:get", "client:post", "client:fetch", "client:open", "request:read",
        "socket:receive", "events:wait_closed", "server:stop", "fs.read", "fs.write", "fs.list", "fs.stat",
        "fs.make_directory", "fs.remove", "fs.rename", "fs.link", "fs.symbolic_link", "fs.read_link", "fs.real_path",
        "fs.temporary_directory", "fs.copy", "fs.lock", "metrics.text", "rl.blocking", "pool:run", "pool:map",
        "crypto.pbkdf2",
        "sqlite.open", "postgres.open", "redis.open", "db:query", "db:row", "db:value", "db:execute", "db:rows",
        "db:batch", "db:script", "db:begin", "db:connection", "db:close", "db:call", "tx:query", "tx:row", "tx:value",
        "tx:execute", "tx:rows", "tx:batch", "tx:script", "tx:begin", "tx:commit", "tx:rollback", "tx:call",
        "connection:query", "connection:row", "connection:value", "connection:execute", "connection:rows",
        "connection:batch", "connection:script", "connection:begin", "connection:call",
    ]

    private static let numbers = Dictionary(uniqueKeysWithValues: names.enumerated().map { ("\($1)", $0 + 1) })

    /// Returns nil for an unknown name. O(1).
    public static func of(_ text: String) -> StaticString? { numbers[text].map { names[$0 - 1] } }

    /// Returns a number for `of(number:)`, from 1 on; nil for an unknown name. O(1).
    package static func number(of text: String) -> Int? { numbers[text] }

    package static func of(number: Int) -> StaticString? {
        number > 0 && number <= names.count ? names[number - 1] : nil
    }
}
