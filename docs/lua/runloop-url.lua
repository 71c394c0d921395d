---@meta runloop.url

-- Every call of the module `runloop.url`: URLs as browsers read them, by WHATWG's standard. Every thread may use it.

---@class runloop.url
local url = {}

---The parts of a URL, without their delimiters, as written in it: percent-encoded. Absent parts are nil, and so is the
---scheme's default port. A script may change them: `tostring(u)` returns the normal form of the current parts, with
---the necessary escapes; it raises an error for a part that cannot be in a URL.
---@class runloop.url.URL
---@field scheme string "https"
---@field user? string
---@field password? string
---@field host? string "example.com", "127.0.0.1", "[::1]"; "" for most files
---@field port? integer
---@field path string "/a/b"; for schemes such as `mailto:`, everything after the colon
---@field query? string "a=1&b=2"
---@field fragment? string

---Parses a URL. Blanks at the ends, tabs and line ends are dropped, backslashes become slashes, `..` is resolved,
---hosts are normalised: `http://0x7f.1` is `http://127.0.0.1/`, and `http://bücher.example` is
---`http://xn--bcher-kva.example/`. So a filter sees the host to which a client connects.
---
---Another text gives nil, `"EINVAL: the host has a blank (http://a b/)"`, `"EINVAL"`; for an international host the
---code is "ENOENT" if libidn2 is not installed.
---@param text string
---@return runloop.url.URL? u
---@return string? problem
---@return string? code
function url.parse(text) end

---Returns the URL of a link on a page: `//host`, `/path`, `../..`, `?query`, `#fragment`, or another complete URL.
---@param base string|runloop.url.URL the page
---@param reference string|runloop.url.URL the link
---@return string? text in the normal form
---@return string? problem
---@return string? code
function url.join(base, reference) end

---Returns a query: `url.query { q = "a b", id = { 1, 2 } }` is "id=1&id=2&q=a+b". The names are sorted, so that equal
---tables give equal texts; a list repeats its name. With several tables, their fields follow each other.
---@param values table<string, string|number|boolean|(string|number|boolean)[]>
---@param ... table
---@return string text
function url.query(values, ...) end

---Reads a query, as `request.query` and `request.query_lists` do. `+` is a blank; a percent sign without two digits
---stays as it is.
---@param text string without the question mark
---@return table<string, string> values the first value of each name
---@return table<string, string[]> lists all values of each name
function url.parse_query(text) end

---Writes all bytes except letters, digits and `-._~` as `%XX`.
---@param text string
---@return string
function url.escape(text) end

---Decodes `%XX`; returns nil for a text with any other percent sign. `+` stays.
---@param text string
---@return string?
function url.unescape(text) end

return url
