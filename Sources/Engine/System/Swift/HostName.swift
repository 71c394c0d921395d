internal import CLinux

/// A host's name as name servers and certificates have it.
public enum HostName {
    /// Why a name is none.
    public struct Mistake: Error, Sendable {
        /// "EINVAL"; "IDN_MISSING" when libidn2 is not installed, which only names need that are not ASCII.
        public let code: String
        /// It names the name.
        public let message: String
    }

    /// "xn--bcher-kva.example" for "bücher.example", as browsers have it (IDNA 2008 with the mapping of UTS 46); ASCII stays as it is.
    /// Thread-safe; linear in the length. The first name that is not ASCII has libidn2 loaded.
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
