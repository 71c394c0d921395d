---@meta runloop.arguments

-- Every call of the module `runloop.arguments`, which parses the script's arguments.

---@class runloop.arguments
local arguments = {}

---One option or argument. The first element has its names: "-o --output", or "file" for a positional argument. A
---"duration" is a text such as "1.5s" or "5m", which becomes seconds; a "size" is "64k" or "2M", which becomes bytes.
---@class runloop.arguments.Entry
---@field [1] string
---@field help? string
---@field value? string the name of its value in the help; with `value`, `type` or `choices` the option has a value
---@field type? "string"|"number"|"integer"|"duration"|"size"
---@field default? any the value if the option is absent; `type` does not convert it
---@field choices? string[]
---@field many? boolean may be given more than once; an argument takes all the rest, at least one if `required`
---@field count? boolean counts how often it was given: -vv
---@field required? boolean
---@field optional? boolean an argument that may be missing
---@field name? string the name of its field in the result; else the long name, with "_" for "-"
---@field hidden? boolean true: not in the help

---The options and arguments of a script, in the list part of the table.
---@class runloop.arguments.Specification
---@field [integer] runloop.arguments.Entry
---@field name? string the script's name; else the last part of `arg[0]`
---@field description? string
---@field epilogue? string
---@field version? string the text of --version; without it, the script has no such option
---@field usage? string replaces the generated usage line

---Parses the script's arguments, or a list of words. `--help` prints the help and ends the script. A wrong argument
---prints a message on standard error and ends the script with status 64. An option without a value can be given as
---`--no-name`, which is false; `--` ends the options.
---@param specification runloop.arguments.Specification
---@param words? string[]
---@return table<string, any> values
function arguments.parse(specification, words) end

---Does the same without printing or ending: returns nil and the problem, or nil, a text and "help" or "version".
---@param specification runloop.arguments.Specification
---@param words? string[]
---@return table<string, any>? values
---@return string? problem
---@return "help"|"version"|nil wish
function arguments.try(specification, words) end

---Returns the help.
---@param specification runloop.arguments.Specification
---@return string
function arguments.help(specification) end

return arguments
