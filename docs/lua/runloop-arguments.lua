---@meta runloop.arguments

-- Every call of the module `runloop.arguments`: what a script was called with.

---@class runloop.arguments
local arguments = {}

---One option or argument. The first element says its names: "-o --output", or "file" for one that stands for itself.
---@class runloop.arguments.Entry
---@field [1] string
---@field help? string
---@field value? string what its value is called in the help; with it, or with `type` or `choices`, the option takes one
---@field type? "string"|"number"|"integer"|"duration"|"size" a duration is "1.5s", "5m", …, in seconds; a size "64k", "2M", …, in bytes
---@field default? any what it is without the option, as it is: a text is not read by `type`
---@field choices? string[]
---@field many? boolean may be given more than once; an argument takes all the rest, which may be none unless it is `required`
---@field count? boolean says how often it was given: -vv
---@field required? boolean
---@field optional? boolean an argument that may be missing
---@field name? string of its field in the result; else the long name, with "_" for "-"
---@field hidden? boolean not in the help

---What a script takes. The list part has the options and arguments.
---@class runloop.arguments.Specification
---@field [integer] runloop.arguments.Entry
---@field name? string of the script; else the last part of `arg[0]`
---@field description? string
---@field epilogue? string
---@field version? string with it there is a --version
---@field usage? string instead of the one that is made

---Reads the script's arguments, or a list of words. `--help` shows the help and ends the script; what is wrong is said on the standard
---error, and ends it with status 64. An option without a value can be given as `--no-name`, which is false; `--` ends the options.
---@param specification runloop.arguments.Specification
---@param words? string[]
---@return table<string, any> values
function arguments.parse(specification, words) end

---The same, for those who decide themselves: nil and the problem, or nil, a text and "help" or "version".
---@param specification runloop.arguments.Specification
---@param words? string[]
---@return table<string, any>? values
---@return string? problem
---@return "help"|"version"|nil wish
function arguments.try(specification, words) end

---The help.
---@param specification runloop.arguments.Specification
---@return string
function arguments.help(specification) end

return arguments
