-- A plugin that answers in capitals.
local json = require "runloop.json"

for line in io.lines() do
  print(json.encode { text = json.decode(line).text:upper() })
end
