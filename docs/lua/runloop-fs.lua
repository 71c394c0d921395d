---@meta runloop.fs

-- Every call of the module `runloop.fs`. All but `watch` and `watcher` wait, while the loop goes on: a small pool of threads makes the
-- system's calls. What the world refuses is an answer: nil, `"ENOENT: no such file or directory (/x)"`, `"ENOENT"`. It may be used
-- from every thread.

---@class runloop.fs
local fs = {}

---One thing that has changed.
---@class runloop.fs.Change
---@field kind "created"|"changed"|"removed"|"renamed"|"rescan" "rescan": changes were lost, or cannot be told apart; look at everything again
---@field path string the path that was given, and what lies below
---@field from? string of a renamed one: its path before, after the changes in front of this one
---@field is_directory boolean
---@field message? string what cannot be watched, and why

---@class runloop.fs.WatchOptions
---@field recursive? boolean all directories below, too, those made later included
---@field ignore? string|string[]|fun(path: string, is_directory: boolean): boolean patterns such as "*.o" and ".git", "build/*" against the path below; or a function
---@field latency? number changes within so many seconds come together (0.05)
---@field while_writing? boolean tells of each write; else when the writer closes the file
---@field name? string for messages
---@field path? string `watcher` only
---@field callback? fun(changes: runloop.fs.Change[], watcher: runloop.fs.Watcher) `watcher` only

---Watches a directory, or a file, in the common modes. The function gets the difference between before and after: an editor's atomic
---save is `changed`, a rename within what is watched is one `renamed`, what was made and removed again is nothing. It is called once
---at a time; without a function, take the changes with `next`. inotify(7).
---@param path string
---@param options? runloop.fs.WatchOptions|fun(changes: runloop.fs.Change[], watcher: runloop.fs.Watcher)
---@param fn? fun(changes: runloop.fs.Change[], watcher: runloop.fs.Watcher)
---@return runloop.fs.Watcher? watcher
---@return string? problem
---@return string? code
function fs.watch(path, options, fn) end

---The same as an object that does nothing until `loop:add(watcher, modes)`.
---@param options runloop.fs.WatchOptions
---@return runloop.fs.Watcher? watcher
---@return string? problem
---@return string? code
function fs.watcher(options) end

---A whole file. One that is longer than `max` bytes (1 GB) is refused with "EFBIG", and not cut. Of a named pipe, what is written
---until all that write to it have closed it; it waits for the first.
---@param path string
---@param max? integer
---@return string? data
---@return string? problem
---@return string? code
function fs.read(path, max) end

---Writes a whole file. It takes the place of an old one in one step: who reads meanwhile has the one or the other. Its permissions stay.
---@param path string
---@param data string
---@param options? { append: boolean?, mode: integer?, sync: boolean? } `append`: at the end of what is there; `mode`: permissions; `sync`: returns when it is on the disk
---@return true? done
---@return string? problem
---@return string? code
function fs.write(path, data, options) end

---What is in a directory, in order of the names. Of a link it says so, wherever it leads.
---@param path string
---@return { name: string, kind: "file"|"directory"|"link"|"other" }[]? entries
---@return string? problem
---@return string? code
function fs.list(path) end

---Iterates over all that is below a directory: path and kind. Links are not followed. Raises what the world refuses.
---@param path string
---@return fun(): string?, string?
function fs.walk(path) end

---What is known of a file: `kind`, `size` in bytes, `mode`, `modified`, `accessed` and `changed` in seconds since 1970, `uid`, `gid`,
---`links`, `device`, `inode`.
---@param path string
---@param options? { follow: boolean? } false: of a link itself
---@return table? information
---@return string? problem
---@return string? code
function fs.stat(path, options) end

---@param path string
---@param options? { parents: boolean?, mode: integer? } `parents`: those that are missing, too, and it is no error if it is there
---@return true? done
---@return string? problem
---@return string? code
function fs.make_directory(path, options) end

---Removes a file, a link or an empty directory.
---@param path string
---@param options? { recursive: boolean? } a directory with all that is in it; links are not followed
---@return true? done
---@return string? problem
---@return string? code
function fs.remove(path, options) end

---Gives a file another name, in the place of what may have that.
---@param from string
---@param to string
---@return true? done
---@return string? problem
---@return string? code
function fs.rename(from, to) end

---Copies a file and its permissions; in the kernel.
---@param from string
---@param to string
---@return integer? bytes
---@return string? problem
---@return string? code
function fs.copy(from, to) end

---Gives a file a second name.
---@param from string
---@param to string
---@return true? done
---@return string? problem
---@return string? code
function fs.link(from, to) end

---Makes a symbolic link at `path` that says `target`.
---@param target string
---@param path string
---@return true? done
---@return string? problem
---@return string? code
function fs.symbolic_link(target, path) end

---What a symbolic link says.
---@param path string
---@return string? target
---@return string? problem
---@return string? code
function fs.read_link(path) end

---The path without links and dots.
---@param path string
---@return string? path
---@return string? problem
---@return string? code
function fs.real_path(path) end

---Makes a directory that nobody else can look into, in $TMPDIR or /tmp. Yours to remove.
---@param prefix? string of its name ("rlhost")
---@return string? path
---@return string? problem
---@return string? code
function fs.temporary_directory(prefix) end

---@class runloop.fs.Watcher
local watcher = {}

---Waits for the next changes: nil, "timed out" after so many seconds; nil, "invalid" when it watches no longer.
---@param timeout? number
---@return runloop.fs.Change[]? changes
---@return string? problem
function watcher:next(timeout) end

---Stops watching, for good. `<close>` does that, too.
function watcher:invalidate() end

---@return boolean
function watcher:is_valid() end

---@return string
function watcher:name() end

return fs
