internal import CLua
internal import CLuaSupport

/// The form in which bytes become values of Lua.
public enum Pieces: Int32, Sendable {
    /// A single string.
    case whole
    /// The words of a line, separated by blanks and tabs. A line without words is one empty string. Word 64 is the rest
    /// of the line.
    case words
    /// The values of a frame's head, without the last one, and the frame's body: see `FrameFormat`.
    case frame
    /// A string and a number.
    case which
}

/// The head of a frame, as a format of `string.pack` describes it. The format's last value is the length of the body.
public struct FrameFormat {
    /// Bytes of the head.
    public let size: Int
    /// The offset and the size of the length, in bytes.
    public let offset: Int
    public let width: Int
    public let isBigEndian: Bool
    public let isSigned: Bool
    /// The format's place in the cache, for `answer` if the frame has already arrived.
    public let place: Int

    /// Reads a format. The format has to be argument 1 of the method that answers with the frame.
    public init(_ text: UnsafeRawBufferPointer) throws(Misuse) {
        var found = cl_frame()
        let start = text.assumingMemoryBound(to: CChar.self).baseAddress
        if let problem = cl_find_frame(start, text.count, &found) {
            throw Misuse("argument #1, the format of the head, \(String(cString: problem))")
        }
        place = Int(found.place)
        size = Int(found.size)
        offset = Int(found.offset)
        width = Int(found.width)
        isBigEndian = found.is_big != 0
        isSigned = found.is_signed != 0
    }
}

/// The options of read functions that clients of protocols call for every message.
public struct QuickOptions {
    let found: cl_options

    public var timeout: Double? { found.timeout < 0 ? nil : found.timeout }
    public var max: Int? { found.max == 0 ? nil : Int(found.max) }
    /// The third option and its type.
    public var integer: Int? { found.kind == CL_IS_INTEGER.rawValue ? Int(found.integer) : nil }
    public var boolean: Bool { found.integer != 0 }
    public var text: UnsafeRawBufferPointer { .init(start: found.text, count: found.length) }
    public var isAbsent: Bool { found.kind == CL_IS_ABSENT.rawValue }
    public var isBoolean: Bool { found.kind == CL_IS_BOOLEAN.rawValue }
    public var isText: Bool { found.kind == CL_IS_TEXT.rawValue }

    /// The third option.
    public enum Third: Int32 { case skip = 1, words, adjust }
}

extension Call {
    /// Reads the options "timeout", "max" and a third one; nil if the table has other fields, or values of another
    /// kind: `fields` then finds the error.
    public func quickOptions(_ index: Int32, third: QuickOptions.Third) -> QuickOptions? {
        var found = cl_options()
        return cl_read_options(thread, index, third.rawValue, &found) != 0 ? QuickOptions(found: found) : nil
    }

    /// The number of arguments that the following functions take at most.
    public static var fewPieces: Int32 { Int32(CL_FEW_PIECES) }

    /// Returns the number of bytes of the arguments from index 2 on, which are strings and numbers.
    public func measurePieces() throws(Misuse) -> Int {
        var total = 0
        let wrong = cl_measure_pieces(thread, 2, &total)
        if wrong != 0 { throw self.wrong(wrong, "a string or a number") }
        return total
    }

    /// Copies the measured arguments. Must be the next call after `measurePieces`.
    public func copyPieces(to place: UnsafeMutableRawPointer) {
        cl_copy_pieces(place.assumingMemoryBound(to: CChar.self))
    }

    /// Returns pieces of these bytes, which must exist until this function has returned. `number` is for
    /// `Pieces.which`.
    public func answer(_ bytes: UnsafeRawBufferPointer, as pieces: Pieces, number: Int = 0) -> Int32 {
        guard pieces != .whole else { return answer(bytes) }
        state.pointee.bytes_start = bytes.assumingMemoryBound(to: CChar.self).baseAddress
        state.pointee.bytes_length = bytes.count
        state.pointee.bytes_form = pieces.rawValue
        state.pointee.bytes_number = Int32(truncatingIfNeeded: number)
        return CL_PIECES.rawValue
    }
}

extension Stack {
    /// Pushes a mark as `pushBytesMark` does, for pieces of these bytes.
    public func pushMark(of bytes: UnsafeRawBufferPointer, as pieces: Pieces, number: Int = 0) {
        let state = cl_state_of(thread)
        state?.pointee.bytes_start = bytes.assumingMemoryBound(to: CChar.self).baseAddress
        state?.pointee.bytes_length = bytes.count
        state?.pointee.bytes_form = pieces.rawValue
        state?.pointee.bytes_number = Int32(truncatingIfNeeded: number)
        lua_pushlightuserdata(thread, cl_pieces_mark())
    }
}
