---@meta runloop.fs

-- Every call of the module `runloop.fs`. All calls except `watch` and `watcher` wait, while the loop goes on: a small
-- pool of threads makes the system calls. If the system refuses something, a call returns nil, a message and a code:
-- nil, `"ENOENT: no such file or directory (/x)"`, `"ENOENT"`. Every thread may use it.

---@class runloop.fs
local fs = {}

---One change. "rescan" means that changes were lost or cannot be told apart: look at everything again.
---@class runloop.fs.Change
---@field kind "created"|"changed"|"removed"|"renamed"|"rescan"
---@field path string the path that you gave, and the part below it
---@field from? string for a rename: the previous path, as it is after the earlier changes of this call
---@field is_directory boolean
---@field message? string names a path that cannot be watched, and why

---Options of a watcher. `ignore` is a pattern such as "*.o", ".git" or "build/*" for the path below, a list of them, or
---a function that returns true for paths to ignore.
---@class runloop.fs.WatchOptions
---@field recursive? boolean true: all directories below, too, including new ones
---@field ignore? string|string[]|fun(path: string, is_directory: boolean): boolean patterns, or a function
---@field latency? number changes within this number of seconds are reported together (0.05)
---@field while_writing? boolean true: reports each write; otherwise when the writer closes the file
---@field name? string for messages
---@field path? string `watcher` only
---@field callback? fun(changes: runloop.fs.Change[], watcher: runloop.fs.Watcher) `watcher` only

---Watches a directory or a file, in the common modes. The function gets the difference between before and after: an
---editor's atomic save is `changed`, a rename within the watched path is one `renamed`, and a file that was made and
---removed again is not reported. The function is called once at a time. Without a function, take the changes with
---`next`. inotify(7)
---@param path string
---@param options? runloop.fs.WatchOptions|fun(changes: runloop.fs.Change[], watcher: runloop.fs.Watcher)
---@param fn? fun(changes: runloop.fs.Change[], watcher: runloop.fs.Watcher)
---@return runloop.fs.Watcher? watcher
---@return string? problem
---@return string? code
function fs.watch(path, options, fn) end

---Makes a watcher that does nothing until `loop:add(watcher, modes)`.
---@param options runloop.fs.WatchOptions
---@return runloop.fs.Watcher? watcher
---@return string? problem
---@return string? code
function fs.watcher(options) end

---Reads a whole file. A file of more than `max` bytes (1 GB) gives "EFBIG". A named pipe gives everything that is
---written until all its writers have closed it; the call waits for the first writer. Waits.
---@param path string
---@param max? integer
---@return string? data
---@return string? problem
---@return string? code
function fs.read(path, max) end

---Writes a whole file. The call replaces an old file in one step: a reader gets the whole old content or the whole new
---one. The permissions stay. `append` writes to the end of the existing file, `mode` sets permissions, and `sync` waits
---until the data is on the disk. Waits.
---@param path string
---@param data string
---@param options? { append: boolean?, mode: integer?, sync: boolean? }
---@return true? done
---@return string? problem
---@return string? code
function fs.write(path, data, options) end

---Returns the entries of a directory in the order of their names. A link has the kind "link", wherever it leads. Waits.
---@param path string
---@return { name: string, kind: "file"|"directory"|"link"|"other" }[]? entries
---@return string? problem
---@return string? code
function fs.list(path) end

---Iterates over everything below a directory, with path and kind. The call does not follow links. The iterator raises
---errors of the system. Waits.
---@param path string
---@return fun(): string?, string?
function fs.walk(path) end

---Returns information about a file: `kind`, `size` in bytes, `mode`, `modified`, `accessed` and `changed` in seconds
---since 1970, `uid`, `gid`, `links`, `device`, `inode`. Waits.
---@param path string
---@param options? { follow: boolean? } false: of a link itself
---@return table? information
---@return string? problem
---@return string? code
function fs.stat(path, options) end

---Makes a directory. With `parents`, makes missing parents as well, and accepts a directory that exists. Waits.
---@param path string
---@param options? { parents: boolean?, mode: integer? }
---@return true? done
---@return string? problem
---@return string? code
function fs.make_directory(path, options) end

---Removes a file, a link or an empty directory. Waits.
---@param path string
---@param options? { recursive: boolean? } true: a directory with its contents; links are not followed
---@return true? done
---@return string? problem
---@return string? code
function fs.remove(path, options) end

---Renames a file, and replaces a file that has the new name. Waits.
---@param from string
---@param to string
---@return true? done
---@return string? problem
---@return string? code
function fs.rename(from, to) end

---Copies a file and its permissions, within the kernel. Waits.
---@param from string
---@param to string
---@return integer? bytes
---@return string? problem
---@return string? code
function fs.copy(from, to) end

---Gives a file a second name. Waits.
---@param from string
---@param to string
---@return true? done
---@return string? problem
---@return string? code
function fs.link(from, to) end

---Makes a symbolic link at `path` that leads to `target`. Waits.
---@param target string
---@param path string
---@return true? done
---@return string? problem
---@return string? code
function fs.symbolic_link(target, path) end

---Returns the target of a symbolic link. Waits.
---@param path string
---@return string? target
---@return string? problem
---@return string? code
function fs.read_link(path) end

---Returns the path without links and dots. Waits.
---@param path string
---@return string? path
---@return string? problem
---@return string? code
function fs.real_path(path) end

---Makes a directory that only you can look into, in $TMPDIR or /tmp. You have to remove it. Waits.
---@param prefix? string the beginning of its name ("rlhost")
---@return string? path
---@return string? problem
---@return string? code
function fs.temporary_directory(prefix) end

---A lock of a file. The lock is free again when the object is closed or collected, and when the process ends in any
---way.
---@class runloop.fs.Lock
local Lock = {}

---Frees the lock. A to-be-closed variable calls this function at the end of its block. Further calls do nothing.
function Lock:close() end

---@class runloop.fs.LockOptions
---@field timeout? number seconds to wait; 0: not at all; no limit if absent
---@field shared? boolean several may have a shared lock at once, but not beside an exclusive one

---Waits for the lock of a file, as flock(2) does. Only one task, thread or process, such as `flock(1)`, has the lock at
---a time, unless it is shared. The file is made with mode 0600 if it is missing, and never removed. If the file is
---replaced meanwhile, the new one counts. Programs that are started do not inherit the lock. If others keep the lock,
---the result is nil, `"EBUSY: held by process 4711 (/run/x.lock)"`, `"EBUSY"`. Waits.
---
---```lua
---local fs = require "runloop.fs"
---local lock <close> = assert(fs.lock("/tmp/rlhost-example.lock", { timeout = 5 }))
---```
---@param path string
---@param options? runloop.fs.LockOptions
---@return runloop.fs.Lock? lock
---@return string? problem
---@return string? code
function fs.lock(path, options) end

---@class runloop.fs.Watcher
local watcher = {}

---Waits for the next changes. Returns nil, "timed out" after some seconds, and nil, "invalid" after the watcher has
---ended.
---@param timeout? number
---@return runloop.fs.Change[]? changes
---@return string? problem
function watcher:next(timeout) end

---Ends the watcher for good. `<close>` does the same.
function watcher:invalidate() end

---@return boolean
function watcher:is_valid() end

---@return string
function watcher:name() end

return fs
