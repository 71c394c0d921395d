import Foundation
import TestSupport
import Testing

/// The scripts beside Apple's chapter. Each script has its expected output at its end: see `ToldScript`.
@Suite("Listings", .timed)
struct ListingTests {
    static let folder = "docs/listings"

    static let scripts = ToldScript.all(in: folder)

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: URL(filePath: Binary.repository + "/" + (path)), encoding: .utf8)
    }

    @Test("each listing prints its expected output", arguments: scripts)
    func prints(script: String) throws { try ToldScript.check("\(Self.folder)/\(script)") }

    /// The first line of a script names its listings: "Listing 3-1: …", "Listings 3-3 to 3-9, …".
    @Test("all nineteen listings of the chapter are there, each once")
    func areComplete() throws {
        var found: [Int] = []
        for script in Self.scripts where !script.hasPrefix("legacy-") {
            let first = try Self.text("\(Self.folder)/\(script)").prefix { $0 != "\n" }
            let match = try #require(
                first.firstMatch(of: #/^-- Listings? 3-(\d+)(?: to 3-(\d+))?[,:] /#),
                "\(script): the first line says which listings of the chapter it is")
            let from = try #require(Int(match.1))
            let to = match.2.flatMap { Int($0) } ?? from
            #expect(script.contains(/^3-0*(\d+)-/), "\(script): its name begins with its number")
            #expect(script.firstMatch(of: /^3-0*(\d+)-/).map { Int($0.1) } == from, "\(script) says it is 3-\(from)")
            found += Array(from...to)
        }
        #expect(found.sorted() == Array(1...19))
    }

    @Test("the chapter's page links to every script, and to no missing one")
    func page() throws {
        let page = try Self.text("docs/chapter.md")
        let named = Set(page.matches(of: /docs\/listings\/([\w.-]+\.lua)/).map { String($0.1) })
        #expect(named == Set(Self.scripts))
    }
}
