-- A plugin: counts words.
local json = require "runloop.json"

for line in io.lines() do
  local _, words = json.decode(line).text:gsub("%S+", "")
  print(json.encode { text = words .. (words == 1 and " word" or " words") })
end
