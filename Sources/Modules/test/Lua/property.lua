-- Properties: functions that must hold for random values. A value for which a property fails is made as simple as
-- possible.
--
-- A value is made from a sequence of whole numbers, its choices, each from 0 up to a limit. Smaller choices make
-- simpler values. Shrinking a value means to shorten its sequence and to lower its numbers as long as the function
-- still fails. This works for all generators, including those that tests compose.

local property = {}
local type, pcall, pairs = type, pcall, pairs
local error, tostring = error, tostring
local getmetatable, setmetatable = getmetatable, setmetatable
local format, unpack, char = string.format, table.unpack, string.char
local byte, sub, concat = string.byte, string.sub, table.concat
local values = require "runloop.test.values"
local math_random, math_type, math_min = math.random, math.type, math.min

function property.add(t, core)

  local misuse, describe_value, fail = core.misuse, core.describe_value, core.fail
  local gen = t.gen
  setmetatable(gen, nil)

  -- Choices -----------------------------------------------------------------------------------------------------------

  local OVERRUN = {}

  -- Returns a source of choices: the given ones, or random ones. The source records all choices.
  local function new_source(given)
    local source = { noted = {}, given = given, at = 0 }
    -- Returns a choice from 0 to `limit`.
    function source.choose(limit)
      source.at = source.at + 1
      local value
      if given then
        value = given[source.at]
        if not value then error(OVERRUN, 0) end
        if value > limit then value = limit end
      elseif limit == math.maxinteger then
        value = math_random(0) & limit
      else
        value = math_random(0, limit)
      end
      source.noted[source.at] = value
      return value
    end
    return source
  end

  -- Generators --------------------------------------------------------------------------------------------------------

  local Generator = { __name = "generator" }
  Generator.__index = Generator

  local function new(make) return setmetatable({ make = make }, Generator) end

  local function check_generator(name, value)
    if getmetatable(value) ~= Generator then
      misuse(name .. ": a generator is expected, got " .. describe_value(value))
    end
  end
  local function check_function(name, fn)
    if type(fn) ~= "function" then misuse(name .. ": argument #1 must be a function, got " .. describe_value(fn)) end
  end

  --- Returns a generator whose values are the results of `fn` for the values of this one.
  function Generator:map(fn)
    check_generator("generator:map", self)
    check_function("generator:map", fn)
    return new(function(choose) return fn(self.make(choose)) end)
  end

  --- Returns a generator of the values for which `fn` is true.
  function Generator:filter(fn)
    check_generator("generator:filter", self)
    check_function("generator:filter", fn)
    return new(function(choose)
      for _ = 1, 100 do
        local value = self.make(choose)
        if fn(value) then return value end
      end
      fail "generator:filter: the function refused 100 values in a row"
    end)
  end

  --- Returns a generator of whole numbers from `low` to `high`, without limits from -1000 to 1000. Numbers near 0 are
  --- the simplest.
  function gen.integer(low, high)
    low, high = low or -1000, high or (low and low > 1000 and math.maxinteger or 1000)
    if math_type(low) ~= "integer" or math_type(high) ~= "integer" or low > high then
      misuse "t.gen.integer: two whole numbers are expected, the lower one first"
    end
    if low >= 0 or high <= 0 or high - low < 0 then
      local from, sign = low, 1
      if high <= 0 then from, sign = high, -1 end
      local span = high - low
      if span < 0 then from, sign, span = 0, 1, math.maxinteger end
      return new(function(choose) return from + sign * choose(span) end)
    end
    local most = high > -low and high or -low
    return new(function(choose)
      local value
      repeat
        local is_negative = choose(1) == 1
        value = choose(most)
        if is_negative then value = -value end
      until value >= low and value <= high
      return value
    end)
  end

  --- Returns a generator of numbers from `low` to `high`, without limits from 0 to 1.
  function gen.number(low, high)
    low, high = low or 0, high or 1
    if type(low) ~= "number" or type(high) ~= "number" or not (low <= high and high - low < math.huge) then
      misuse "t.gen.number: two finite numbers are expected, the lower one first"
    end
    return new(function(choose) return low + (high - low) * (choose(1 << 20) / (1 << 20)) end)
  end

  --- Returns a generator of true and false.
  function gen.boolean() return new(function(choose) return choose(1) == 1 end) end

  --- Returns a generator that always makes this value.
  function gen.constant(value) return new(function() return value end) end

  --- Returns a generator of the elements of an array; the first one is the simplest.
  function gen.element(list)
    if type(list) ~= "table" or #list == 0 then misuse "t.gen.element: an array is expected that is not empty" end
    return new(function(choose) return list[choose(#list - 1) + 1] end)
  end

  --- Returns a generator that uses one of several generators; the first one is the simplest.
  function gen.one_of(list)
    if type(list) ~= "table" or #list == 0 then misuse "t.gen.one_of: an array of generators is expected" end
    for _, generator in pairs(list) do check_generator("t.gen.one_of", generator) end
    return new(function(choose) return list[choose(#list - 1) + 1].make(choose) end)
  end

  local function length_of(name, options)
    if options == nil then options = {} end
    if type(options) ~= "table" then
      misuse(format("%s: the options must be a table, got %s", name, describe_value(options)))
    end
    for key, value in pairs(options) do
      if key ~= "min" and key ~= "max" or math_type(value) ~= "integer" or value < 0 then
        misuse(format("%s: options are whole numbers 'min' and 'max'", name))
      end
    end
    local min, max = options.min or 0, options.max or (options.min or 0) + 20
    if min > max then misuse(format("%s: 'min' (%d) is above 'max' (%d)", name, min, max)) end
    return min, max
  end

  -- A choice announces each element, so that shrinking can drop one without changing the others.
  local function sequence(choose, make, min, max)
    local list = {}
    while #list < max do
      if #list >= min and choose(7) == 0 then break end
      list[#list + 1] = make(choose)
    end
    return list
  end

  --- Returns a generator of arrays whose elements a generator makes. `{min =, max =}` limits the length.
  function gen.list(generator, options)
    check_generator("t.gen.list", generator)
    local min, max = length_of("t.gen.list", options)
    return new(function(choose) return sequence(choose, generator.make, min, max) end)
  end

  --- Returns a generator of strings of the characters in `alphabet`, or of all bytes. Printable ASCII characters are
  --- the simplest. `{min =, max =}` limits the length.
  function gen.string(alphabet, options)
    if type(alphabet) == "table" then alphabet, options = nil, alphabet end
    if alphabet ~= nil and type(alphabet) ~= "string" then
      misuse("t.gen.string: argument #1 must be a string, got " .. describe_value(alphabet))
    end
    local min, max = length_of("t.gen.string", options)
    if alphabet == "" then
      if min > 0 then
        misuse(format("t.gen.string: no string of %d characters can be made of an empty alphabet", min))
      end
      max = 0
    end
    local function make(choose)
      if alphabet then
        local i = choose(#alphabet - 1) + 1
        return sub(alphabet, i, i)
      end
      return char((choose(255) + byte "a") % 256)
    end
    return new(function(choose) return concat(sequence(choose, make, min, max)) end)
  end

  --- Returns a generator of tables, or arrays, whose fields the generators in `fields` make.
  function gen.record(fields)
    if type(fields) ~= "table" then
      misuse("t.gen.record: a table of generators is expected, got " .. describe_value(fields))
    end
    local names = {}
    for name, generator in pairs(fields) do
      check_generator("t.gen.record", generator)
      names[#names + 1] = name
    end
    table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
    return new(function(choose)
      local record = {}
      for _, name in pairs(names) do record[name] = fields[name].make(choose) end
      return record
    end)
  end

  -- Trying ------------------------------------------------------------------------------------------------------------

  -- Returns lines about the values that are being tried. The runner also calls this function if a callback fails
  -- meanwhile.
  local function described(shown, best)
    local lines = {}
    for k = 1, #best do lines[k] = format("argument %d: %s", k, best[k]) end
    if shown ~= best then lines[#lines + 1] = format("found as: %s", concat(shown, ", ")) end
    lines[#lines + 1] = format("--seed %d makes the same values",
      core.current and core.current.seed or core.options.seed)
    return lines
  end

  -- Returns whether the function fails, the error, the values as text, and the choices. Returns nil if the given
  -- choices do not make values.
  local function try(generators, body, given)
    local source, arguments = new_source(given), { n = #generators }
    local made = pcall(function()
      for i = 1, #generators do arguments[i] = generators[i].make(source.choose) end
    end)
    if not made and given then return nil end
    if not made then
      source = new_source()
      for i = 1, #generators do arguments[i] = generators[i].make(source.choose) end
    end
    -- The values are shown first, because the function may change them.
    local shown = {}
    for i = 1, #generators do shown[i] = values.show(arguments[i]) end
    local current = core.current or {}
    current.tries = function() return described(shown, shown) end
    local fine, raised = pcall(body, unpack(arguments, 1, arguments.n))
    current.tries = nil
    if not fine and getmetatable(raised) == core.Skip then error(raised, 0) end
    if fine and raised == false then fine, raised = false, "it returned false" end
    return not fine, raised, shown, source.noted
  end

  local function without(list, first, count)
    local rest = {}
    for i = 1, #list do if i < first or i >= first + count then rest[#rest + 1] = list[i] end end
    return rest
  end

  -- Returns the simplest failure that it finds; `tries` limits the number of candidates.
  local function shrink(generators, body, best, tries)
    local function better(candidate)
      if tries <= 0 then return false end
      tries = tries - 1
      local fails, raised, shown, noted = try(generators, body, candidate)
      if not fails then return false, fails == nil end
      -- A candidate is simpler if its sequence is shorter, or has the same length and a lower number first.
      if #noted > #best.noted then return false end
      if #noted == #best.noted then
        local is_lower = false
        for i = 1, #noted do
          if noted[i] ~= best.noted[i] then
            is_lower = noted[i] < best.noted[i]
            break
          end
        end
        if not is_lower then return false end
      end
      best = { raised = raised, shown = shown, noted = noted, steps = best.steps + 1 }
      return true
    end
    local has_changed
    repeat
      has_changed = false
      for _, count in pairs { 16, 8, 4, 3, 2, 1 } do
        local i = #best.noted - count + 1
        while i >= 1 do
          if better(without(best.noted, i, count)) then has_changed = true end
          i = i - 1
          if i > #best.noted - count + 1 then i = #best.noted - count + 1 end
        end
      end
      -- Some numbers are the length of the choices that follow: drop some choices, and lower the number by as many.
      for place = 1, #best.noted do
        for _, count in pairs { 8, 4, 2, 1 } do
          local i = place + 1
          while i + count - 1 <= #best.noted and best.noted[place] >= count and best.noted[place] <= #best.noted do
            local candidate = without(best.noted, i, count)
            candidate[place] = candidate[place] - count
            if better(candidate) then has_changed = true else i = i + 1 end
          end
        end
      end
      local i = 1
      while i <= #best.noted do
        -- Finds the lowest value that still fails, by halving. If a filter refuses the value in the middle, the next
        -- higher one is tried.
        local low, high = 0, best.noted[i]
        while low < high and best.noted[i] do
          local middle = low + (high - low) // 2
          local at, is_better, is_none = middle, nil, nil
          repeat
            local candidate = without(best.noted, 1, 0)
            candidate[i] = at
            is_better, is_none = better(candidate)
            at = at + 1
          until not is_none or at >= high or at > middle + 64
          if is_better then
            has_changed, high = true, at - 1
          elseif is_none and at >= high then
            high = middle
          else
            low = at
          end
        end
        i = i + 1
      end
      -- Lowers two numbers together, for failures that depend on their difference.
      for first = 1, #best.noted - 1 do
        for second = first + 1, first + 4 do
          local step = best.noted[second] and math_min(best.noted[first], best.noted[second]) or 0
          while step > 0 and best.noted[second] do
            local candidate = without(best.noted, 1, 0)
            candidate[first], candidate[second] = candidate[first] - step, candidate[second] - step
            if candidate[first] >= 0 and candidate[second] >= 0 and better(candidate) then has_changed = true end
            step = step // 2
          end
        end
      end
    until not has_changed or tries <= 0
    return best
  end

  local OPTIONS = { runs = "a whole number", shrinks = "a whole number" }
  local function is_count(value) return math_type(value) == "integer" and value >= 0 end

  --- Calls a function with random values of generators, `runs` times (100). If the function raises an error or returns
  --- false, the report has simpler values for which it still fails. `--seed` determines the values.
  function t.forall(generators, body, options)
    if getmetatable(generators) == Generator then generators = { generators } end
    if type(generators) ~= "table" or #generators == 0 then
      misuse("t.forall: argument #1 must be an array of generators, got " .. describe_value(generators))
    end
    for _, generator in pairs(generators) do check_generator("t.forall", generator) end
    if getmetatable(body) == Generator then
      misuse "t.forall: several generators are given as an array: t.forall({ a, b }, fn)"
    end
    core.check_argument(body, "function", "t.forall", 2, "a function")
    core.check_options(options, OPTIONS, "t.forall", is_count)
    if options and options.runs == 0 then
      misuse "t.forall: option 'runs' must be 1 or more, got 0: nothing would be tested"
    end
    local runs, shrinks = options and options.runs or 100, options and options.shrinks or 2000
    for i = 1, runs do
      local fails, raised, shown, noted = try(generators, body)
      if fails then
        local best = shrink(generators, body, { raised = raised, shown = shown, noted = noted, steps = 0 }, shrinks)
        local details = described(shown, best.shown)
        local what = best.raised
        if getmetatable(what) == core.Failure then
          for _, line in pairs(what.details or {}) do details[#details + 1] = line end
          what = (what.where and what.where .. ": " or "") .. what.message
        end
        fail(format("it does not hold for all values (try %d of %d): %s", i, runs, tostring(what)), details)
      end
    end
  end

end

return property
