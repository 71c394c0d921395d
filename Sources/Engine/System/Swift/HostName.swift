internal import CLinux

/// Host names in the form that name servers and certificates use.
public enum HostName {
    /// The reason why a text cannot be a host name.
    public struct Mistake: Error, Sendable {
        /// "EINVAL"; "IDN_MISSING" if the name is not ASCII and libidn2 is not installed.
        public let code: String
        /// A text that contains the name.
        public let message: String
    }

    /// Returns a host name in ASCII: "xn--bcher-kva.example" for "bücher.example", as browsers do (IDNA 2008 with the
    /// mapping of UTS 46). A name in ASCII stays as it is. Thread-safe. O(length). The first name that is not ASCII
    /// loads libidn2.
    public static func ascii(_ name: String) throws(Mistake) -> String {
        if name.utf8.allSatisfy({ $0 < 0x80 }) { return name }
        var out = [CChar](repeating: 0, count: 256)
        var code = [CChar](repeating: 0, count: 32)
        var text = [CChar](repeating: 0, count: 512)
        guard name.withCString({ linux_ascii_host($0, &out, &code, &text) }) != 0 else {
            throw Mistake(code: string(code), message: string(text))
        }
        return string(out)
    }

    private static func string(_ bytes: [CChar]) -> String {
        String(decoding: bytes.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
