---@meta runloop.url

-- Every call of the module `runloop.url`: URLs as browsers read them, by WHATWG's standard. Every thread may use it.

---@class runloop.url
local url = {}

---The parts of a URL, without their signs, as they are written in it: percent-encoded. Absent parts are nil, also a
---port that is the scheme's own. A script may change them: `tostring(u)` is the normal form of what they are then, with
---the escapes that they need; it raises an error for a part that cannot be in a URL.
---@class runloop.url.URL
---@field scheme string "https"
---@field user? string
---@field password? string
---@field host? string "example.com", "127.0.0.1", "[::1]"; "" for most files
---@field port? integer
---@field path string "/a/b"; of schemes such as `mailto:` all that follows
---@field query? string "a=1&b=2"
---@field fragment? string

---Parses a URL. Blanks at the ends, tabs and line ends are dropped, backslashes become slashes, `..` is resolved, hosts
---get their one form: `http://0x7f.1` is `http://127.0.0.1/`, and `http://bücher.example` is
---`http://xn--bcher-kva.example/`. So a filter sees what a client connects to.
---
---Another text gives nil, `"EINVAL: the host has a blank (http://a b/)"`, `"EINVAL"`; an international host without
---libidn2 the code "ENOENT".
---@param text string
---@return runloop.url.URL? u
---@return string? problem
---@return string? code
function url.parse(text) end

---Returns the URL of a link on a page: `//host`, `/path`, `../..`, `?query`, `#fragment`, or another whole URL.
---@param base string|runloop.url.URL the page
---@param reference string|runloop.url.URL the link
---@return string? text in the normal form
---@return string? problem
---@return string? code
function url.join(base, reference) end

---Returns a query: `url.query { q = "a b", id = { 1, 2 } }` is "id=1&id=2&q=a+b". The names are sorted, so that equal
---tables give equal texts; a list repeats its name. Several tables follow each other.
---@param values table<string, string|number|boolean|(string|number|boolean)[]>
---@param ... table
---@return string text
function url.query(values, ...) end

---Reads a query, as `request.query` and `request.query_lists` do. `+` is a blank.
---@param text string without the question mark
---@return table<string, string> values the first value of each name
---@return table<string, string[]> lists all values of each name
function url.parse_query(text) end

---Writes all bytes but letters, digits and `-._~` as `%XX`.
---@param text string
---@return string
function url.escape(text) end

---Reads `%XX`; nil for a text with another percent sign. `+` stays.
---@param text string
---@return string?
function url.unescape(text) end

return url
