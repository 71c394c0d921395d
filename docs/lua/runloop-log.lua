---@meta runloop.log

-- Every call of the module `runloop.log`. A message is one line, whatever is in it, and is written by one system call.

---@class runloop.log
local log = {}

---@alias runloop.log.Level "debug"|"info"|"warning"|"error"|"off"

---@class runloop.log.Options
---@field to? "stderr"|"journal"|string a path is added to
---@field level? runloop.log.Level what is less is not written; else that of the variable RLHOST_LOG, else "info"
---@field format? "text"|"json"|"journal" the journal's lines begin with a priority; the standard error has them when the journal reads it
---@field name? string said before each message
---@field fields? table<string, any> said with each message
---@field time? boolean false: text without the time

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

---A logger with more fields, and perhaps another name.
---@param fields table<string, any>
---@param name? string
---@return runloop.log.Logger
function log.with(fields, name) end

---@param level runloop.log.Level
function log.set_level(level) end

---Whether a message of this level would be written.
---@param level runloop.log.Level
---@return boolean
function log.is_on(level) end

---A logger of one's own. It has `debug`, `info`, `warning`, `error`, `with`, `set_level` and `is_on` as methods.
---@param options? runloop.log.Options
---@return runloop.log.Logger? logger
---@return string? problem
---@return string? code
function log.open(options) end

---Makes a logger the one that `log.info` and the others use.
---@param logger runloop.log.Logger
function log.set_default(logger) end

---The script's name, for messages.
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

---Goes on in a new file of the same name: after a rotation, for instance when SIGHUP comes.
---@return true? done
---@return string? problem
---@return string? code
function logger:reopen() end

---Closes its file, and writes nothing more.
function logger:close() end

return log
