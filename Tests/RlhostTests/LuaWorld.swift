import Testing

@testable import LuaRunLoops

@Suite struct PlaceholderTests { @Test func nothing() {} }
