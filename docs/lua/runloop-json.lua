---@meta runloop.json

-- Every call of the module `runloop.json`, for readers and for Lua editors. Every thread may use it.

---`json.null` stands for `null` in both directions, since a field that is `nil` does not exist. In conditions it counts
---as true.
---@class runloop.json
---@field null lightuserdata
local json = {}

---How `encode` writes a text. With `sort`, names are in the order of their bytes, so that equal values become equal
---texts; otherwise their order changes from run to run. Sorting costs O(n log n).
---@class runloop.json.EncodeOptions
---@field indent? integer|string|boolean a number of blanks (at most 16), a string of blanks and tabs, or true: 2
---@field sort? boolean true: names in the order of their bytes

---Writes a value as JSON text. Integers stay integers; a float becomes the shortest text that reads as the same float,
---always with a point or an exponent. A table with the keys 1 to n is an array, and one with names as keys is an
---object. An empty table is an object, unless `json.array` has marked it.
---
---Raises an error for values that JSON does not have: functions, NaN, infinite numbers, strings that are not UTF-8,
---tables with holes or with both kinds of keys, more than 1,000 nested tables. The message says where: `json.encode: a
---function cannot be written (at users[3].callback)`. The time is linear in the length of the text.
---@param value any
---@param options? runloop.json.EncodeOptions
---@return string text
function json.encode(value, options) end

---Reads a JSON text as RFC 8259 defines it. Whole numbers become integers if they fit into 64 bits, all others floats;
---`null` becomes `json.null`. Arrays and empty objects are marked, so that `encode` writes them in the same way. If an
---object has a name twice, the last one counts.
---
---A text that is not JSON gives nil, `"line 2, column 7: expected ':', found '}'"`, `"EBADMSG"`. So does a text with
---bytes that are not UTF-8, halves of surrogate pairs, numbers beyond every float, and more than 1,000 nested arrays
---and objects. Columns count characters. The time is linear in the length of the text.
---@param text string
---@return any value
---@return string? problem
---@return string? code
function json.decode(text) end

---Marks a table as an array, and returns it. An empty array is written as `[]`, and places without a value before the
---largest key as `null`. `encode` refuses an array with more than 1,000 places if less than a tenth of them have
---values.
---@generic T: table
---@param t? T a new one if absent; it must not have a metatable of its own
---@return T
function json.array(t) end

---Marks a table as an object, and returns it. Its keys may be numbers, which become names. `encode` refuses two keys
---that become one name, such as 1 and "1".
---@generic T: table
---@param t? T a new one if absent; it must not have a metatable of its own
---@return T
function json.object(t) end

---Iterates over the values of a text with one value in each line (NDJSON, JSON Lines), as they arrive. It skips empty
---lines. A line that is not JSON raises an error with its number; errors of the source are raised as well.
---
---    for event in json.lines(stream) do handle(event) end
---
---@param source runloop.net.Stream|file*|fun(): string? an object with `lines`, or an iterator of lines
---@param options? table for `stream:lines`, such as `{ max = 65536 }`
---@return fun(): any
function json.lines(source, options) end

return json
