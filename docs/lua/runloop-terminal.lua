---@meta runloop.terminal

-- Every call of the module `runloop.terminal`.

---@class runloop.terminal
local terminal = {}

---Opens the controlling terminal of this process, whatever its standard descriptors are. Without a terminal: nil,
---`"ENXIO: this process has no terminal"`, `"ENXIO"`.
---@return runloop.terminal.Terminal? terminal
---@return string? problem
---@return string? code
function terminal.open() end

---Returns how many columns a text takes: two for wide characters, none for combining accents and escape sequences.
---@param text string
---@return integer
function terminal.width(text) end

---Returns how many colours to use on a descriptor (standard output): 0, 8, 256 or 16777216. NO_COLOR, TERM and
---COLORTERM determine the number.
---@param fd? integer
---@return integer
function terminal.colors(fd) end

---Returns a text in styles such as "bold red" or "white on_blue" if standard output shows them; otherwise the plain
---text.
---@param styles string
---@param text any
---@return string
function terminal.style(styles, text) end

---Draws a progress bar on standard error, ten times a second; if standard error is not a terminal, prints one line at
---the end. `<close>` finishes it.
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

---Prints lines on standard error, above the bar.
---@param text string
function progress:write(text) end

function progress:finish() end

---@alias runloop.terminal.MouseAction "press"|"release"|"move"|"drag"|"wheel_up"|"wheel_down"

---One key press, one paste, or one action of the mouse.
---@class runloop.terminal.Key
---@field name string "a", "up", "ctrl-c", "alt-x", "shift-tab", "f1", "enter", "escape", "space", "paste", "mouse", …
---@field text? string the text that it types, if any
---@field control? boolean
---@field alt? boolean
---@field shift? boolean
---@field paste? string the pasted text
---@field mouse? { action: runloop.terminal.MouseAction, button: integer, row: integer, column: integer }

---@class runloop.terminal.Terminal
local screen = {}

---Returns rows and columns.
---@return integer? rows
---@return integer|string columns
---@return string? code
function screen:size() end

---Calls a function when the size has changed, and when the process continues after a stop; draw the screen in it.
---@param fn fun(rows: integer, columns: integer, terminal: runloop.terminal.Terminal)
---@return runloop.process.Signal? handler
function screen:on_resize(fn) end

---Puts the terminal into raw mode: keys come one by one, without an echo. Raw mode lasts until you close the returned
---object, or the process ends in any way but SIGKILL. While the process is stopped, or a program that was started with
---`foreground` has the terminal, the terminal has its former state.
---`mouse` reports the mouse; `paste = false` delivers pastes as keys; with `signals`, Control-C stays a signal. While a
---program has the terminal: nil, "EBUSY: …".
---@param options? { mouse: boolean?, paste: boolean?, signals: boolean? }
---@return { close: function }? raw closable
---@return string? problem
---@return string? code
function screen:raw(options) end

---Switches to the alternate screen until you close the returned object; then the former content comes back. Needs raw
---mode.
---@return { close: function } closable
function screen:alternate_screen() end

---Hides the cursor until you close the returned object. Needs raw mode.
---@return { close: function } closable
function screen:hide_cursor() end

---Calls a function for each key, one after the other, in the common modes.
---@param fn fun(key: runloop.terminal.Key, terminal: runloop.terminal.Terminal)
---@return runloop.terminal.KeyHandler
function screen:on_key(fn) end

---Makes a handler that does nothing until `loop:add(handler, modes)`: for example, keys for a dialogue only.
---@param fn fun(key: runloop.terminal.Key, terminal: runloop.terminal.Terminal)
---@return runloop.terminal.KeyHandler
function screen:key_handler(fn) end

---Waits for a key. Returns nil, "timed out" after some seconds, and nil when the terminal is gone.
---@param timeout? number
---@return runloop.terminal.Key? key
---@return string? problem
function screen:read_key(timeout) end

---Iterates over the keys. Waits.
---@return fun(): runloop.terminal.Key?
function screen:keys() end

---@param ... string|number
---@return true? written
---@return string? problem
---@return string? code
function screen:write(...) end

---Moves the cursor; both count from 1.
---@param row integer
---@param column integer
function screen:move(row, column) end

---Clears the screen.
function screen:clear() end

---@return integer
function screen:fd() end

---Restores the terminal. `<close>` does the same.
function screen:close() end

---@class runloop.terminal.KeyHandler
local key_handler = {}

function key_handler:invalidate() end

---@return boolean
function key_handler:is_valid() end

return terminal
