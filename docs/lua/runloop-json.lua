---@meta runloop.json

-- Every call of the module `runloop.json`, for readers and for Lua editors. It may be used from every thread.

---@class runloop.json
---@field null lightuserdata stands for `null`, in both directions: `nil` in a table would be no field at all. False it is not.
local json = {}

---How a text is written.
---@class runloop.json.EncodeOptions
---@field indent? integer|string|boolean over several lines: by so many blanks (at most 16), this text of blanks and tabs, or two
---@field sort? boolean names by their bytes, so that equal values are equal texts; without it their order changes from run to run. O(n log n)

---Writes a value as JSON text. Integers are written as such, floats as the shortest text that reads as the same float, always with
---a point or an exponent. A table whose keys are 1 to n is an array; one with names as keys is an object; an empty one is an
---object, unless `json.array` says otherwise. Raises an error for what JSON cannot say: functions, NaN, infinite numbers,
---strings that are not UTF-8, tables with holes or with both kinds of keys, more than 1,000 tables in each other. The message
---tells where: `json.encode: a function cannot be written (at users[3].callback)`. Linear in the length of the text.
---@param value any
---@param options? runloop.json.EncodeOptions
---@return string text
function json.encode(value, options) end

---Reads a JSON text, by the letter of RFC 8259. Whole numbers become integers if they fit (64 bits), all others floats; `null`
---becomes `json.null`; arrays and empty objects are marked, so that they are written as they were read. Of equal names the last
---counts. What is not JSON is an answer: nil, `"line 2, column 7: expected ':', found '}'"`, `"EBADMSG"`. So are bytes that are not
---UTF-8, halves of surrogate pairs, numbers beyond every float, and more than 1,000 arrays and objects in each other. Columns
---count characters. Linear in the length of the text.
---@param text string
---@return any value
---@return string? problem
---@return string? code
function json.decode(text) end

---Marks a table as an array, and returns it: empty, it is written as `[]`, and what is missing before its largest key as `null`.
---One with more than 1,000 places of which less than a tenth have values is refused by `encode`.
---@generic T: table
---@param t? T a new one if nil; it must not have a metatable of its own
---@return T
function json.array(t) end

---Marks a table as an object, and returns it: its keys may be numbers, which become names. Two keys that
---become one name, 1 and "1", are refused by `encode`.
---@generic T: table
---@param t? T a new one if nil; it must not have a metatable of its own
---@return T
function json.object(t) end

---Iterates over the values of a text with one in each line (NDJSON, JSON Lines), as they come. Empty lines are passed over. A line
---that is not JSON raises an error with its number, and so does what the source raises.
---
---    for event in json.lines(stream) do handle(event) end
---
---@param source runloop.net.Stream|file*|fun(): string? what has `lines`, or an iterator of lines
---@param options? table for `stream:lines`, such as `{ max = 65536 }`
---@return fun(): any
function json.lines(source, options) end

return json
