---@meta runloop.terminal

-- Every call of the module `runloop.terminal`.

---@class runloop.terminal
local terminal = {}

---The terminal that this process belongs to, whatever its standard descriptors are: nil, `"ENXIO: this process has no terminal"`,
---`"ENXIO"` if there is none.
---@return runloop.terminal.Terminal? terminal
---@return string? problem
---@return string? code
function terminal.open() end

---How many columns a text takes: wide characters two, accents none, escape sequences none.
---@param text string
---@return integer
function terminal.width(text) end

---How many colours are worth using on a descriptor (standard output): 0, 8, 256 or 16777216. By NO_COLOR, TERM and COLORTERM.
---@param fd? integer
---@return integer
function terminal.colors(fd) end

---A text in styles such as "bold red" or "white on_blue", where standard output shows them; else the text.
---@param styles string
---@param text any
---@return string
function terminal.style(styles, text) end

---A bar on the standard error, drawn ten times a second; where that is no terminal, one line at the end. `<close>` finishes it.
---@param options { total: number?, text: string? } without a total, it counts
---@return runloop.terminal.Progress
function terminal.progress(options) end

---@class runloop.terminal.Progress
local progress = {}

---@param done number
function progress:set(done) end

---@param more? number 1
function progress:add(more) end

---@param text string
function progress:set_text(text) end

---Writes lines to the standard error, above the bar.
---@param text string
function progress:write(text) end

function progress:finish() end

---One press of a key, one paste, or what a mouse did.
---@class runloop.terminal.Key
---@field name string "a", "up", "ctrl-c", "alt-x", "shift-tab", "f1", "enter", "escape", "space", "paste", "mouse", …
---@field text? string what it types, if it does
---@field control? boolean
---@field alt? boolean
---@field shift? boolean
---@field paste? string what was pasted
---@field mouse? { action: "press"|"release"|"move"|"drag"|"wheel_up"|"wheel_down", button: integer, row: integer, column: integer }

---@class runloop.terminal.Terminal
local screen = {}

---Rows and columns.
---@return integer? rows
---@return integer|string columns
---@return string? code
function screen:size() end

---Calls a function when the size has changed, and when the process goes on after having been stopped: the screen is to be drawn.
---@param fn fun(rows: integer, columns: integer, terminal: runloop.terminal.Terminal)
---@return runloop.process.Signal? handler
function screen:on_resize(fn) end

---Keys come one by one, without an echo, until what is returned is closed; or the process ends, in whatever way but by SIGKILL. While the
---process is stopped, the terminal is as it was.
---@param options? { mouse: boolean?, paste: boolean?, signals: boolean? } `mouse`: it tells of a mouse; `paste = false`: pastes come as keys; `signals`: Control-C is a signal still
---@return { close: function }? raw closable
---@return string? problem
---@return string? code
function screen:raw(options) end

---Another screen, until what is returned is closed; then what was there comes back. The terminal has to be raw.
---@return { close: function } closable
function screen:alternate_screen() end

---Hides the cursor, until what is returned is closed. The terminal has to be raw.
---@return { close: function } closable
function screen:hide_cursor() end

---Calls a function for each key, one after the other, in the common modes.
---@param fn fun(key: runloop.terminal.Key, terminal: runloop.terminal.Terminal)
---@return runloop.terminal.KeyHandler
function screen:on_key(fn) end

---The same as an object that does nothing until `loop:add(handler, modes)`: keys for a dialogue only.
---@param fn fun(key: runloop.terminal.Key, terminal: runloop.terminal.Terminal)
---@return runloop.terminal.KeyHandler
function screen:key_handler(fn) end

---Waits for a key: nil, "timed out" after so many seconds; nil when the terminal is gone.
---@param timeout? number
---@return runloop.terminal.Key? key
---@return string? problem
function screen:read_key(timeout) end

---Iterates over the keys.
---@return fun(): runloop.terminal.Key?
function screen:keys() end

---@param ... string|number
---@return true? written
---@return string? problem
---@return string? code
function screen:write(...) end

---Puts the cursor there; both count from 1.
---@param row integer
---@param column integer
function screen:move(row, column) end

---Makes the screen empty.
function screen:clear() end

---@return integer
function screen:fd() end

---Gives it back. `<close>` does that, too.
function screen:close() end

---@class runloop.terminal.KeyHandler
local key_handler = {}

function key_handler:invalidate() end

---@return boolean
function key_handler:is_valid() end

return terminal
