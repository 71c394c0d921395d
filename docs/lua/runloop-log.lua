---@meta runloop.log

-- Every call of the module `runloop.log`. A message is one line, whatever the text contains, and is written by one
-- system call.

---@class runloop.log
local log = {}

---@alias runloop.log.Level "debug"|"info"|"warning"|"error"|"off"

---Options of a logger. In format "journal", lines begin with a priority; standard error has this format if the journal
---reads it.
---@class runloop.log.Options
---@field to? "stderr"|"journal"|string or the path of a file, to which lines are appended; "/dev/stdout" works, too
---@field level? runloop.log.Level the lowest level that is written; else the variable RLHOST_LOG, else "info"
---@field format? "text"|"json"|"journal" "journal": lines begin with a priority
---@field name? string printed before each message
---@field fields? table<string, any> added to each message
---@field time? boolean false: text without the time
---@field max_size? integer bytes, 4096 or more: before a line that would make the file larger, it becomes `path.1`
---@field keep? integer how many old files there may be (5); 0: none
---@field locals? string[] names of values of `rl.locals`, added to each message of a task that has them

---@param message any
---@param fields? table<string, any>
function log.debug(message, fields) end

---@param message any
---@param fields? table<string, any>
function log.info(message, fields) end

---@param message any
---@param fields? table<string, any>
function log.warning(message, fields) end

---@param message any
---@param fields? table<string, any>
function log.error(message, fields) end

---Returns a logger with more fields, and another name if you like.
---@param fields table<string, any>
---@param name? string
---@return runloop.log.Logger
function log.with(fields, name) end

---@param level runloop.log.Level
function log.set_level(level) end

---Returns whether messages of this level are written.
---@param level runloop.log.Level
---@return boolean
function log.is_on(level) end

---Opens a logger of your own. Its methods are `debug`, `info`, `warning`, `error`, `with`, `set_level` and `is_on`.
---A named pipe needs a program that reads it within two seconds.
---@param options? runloop.log.Options
---@return runloop.log.Logger? logger
---@return string? problem
---@return string? code
function log.open(options) end

---Makes a logger the default one, which `log.info` and the others use.
---@param logger runloop.log.Logger
function log.set_default(logger) end

---Returns the script's name, for messages.
---@return string
function log.program() end

---@class runloop.log.Logger
local logger = {}

---@param message any
---@param fields? table<string, any>
function logger:debug(message, fields) end

---@param message any
---@param fields? table<string, any>
function logger:info(message, fields) end

---@param message any
---@param fields? table<string, any>
function logger:warning(message, fields) end

---@param message any
---@param fields? table<string, any>
function logger:error(message, fields) end

---@param fields table<string, any>
---@param name? string
---@return runloop.log.Logger
function logger:with(fields, name) end

---@param level runloop.log.Level
function logger:set_level(level) end

---@param level runloop.log.Level
---@return boolean
function logger:is_on(level) end

---Closes the file and opens a new one of the same name: for log rotation, for example on SIGHUP.
---@return true? done
---@return string? problem
---@return string? code
function logger:reopen() end

---Closes its file; later messages are not written.
function logger:close() end

return log
