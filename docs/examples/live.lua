-- A JSON service with live events, and a page that shows them: open it in several windows.
--
--   rlhost live.lua [PORT]

local rl = require "runloop"
local http = require "runloop.http"
local json = require "runloop.json"

local items, count = {}, 0
local app = http.routes()

app:get("/items", function() return http.json { items = json.array(items) } end)

app:post("/items", function(request)
  local item, problem = request:json { max = 65536 }
  if not item then return http.bad_request(problem) end
  if type(item) ~= "table" or type(item.text) ~= "string" then return http.bad_request "text is missing" end
  count = count + 1
  local made = { id = count, text = item.text }
  items[count] = made
  rl.notifications:post("item", made)
  return http.json(made, 201)
end)

app:get("/events", function(request)
  local events = request:respond():events()
  -- A client that comes back gets the events that it has missed.
  for id = (tonumber(events.last_id) or count) + 1, count do events:send { data = items[id], id = id } end
  local observer <close> = rl.notifications:observe("item", function(_, item)
    -- A slow client must not delay the others: if it does not read, it loses its connection, and connects again.
    events:queue { data = item, id = item.id }
  end)
  events:wait_closed()
end)

app:get("/", function()
  return http.html [[
<!doctype html><meta charset="utf-8"><title>live</title>
<h1>Live</h1>
<form id="form"><input id="text" autofocus> <button>add</button></form>
<ul id="list"></ul>
<script>
  const list = document.getElementById("list"), text = document.getElementById("text")
  const show = item => list.appendChild(document.createElement("li")).textContent = item.text
  const source = new EventSource("/events")
  source.onopen = async () => {
    list.replaceChildren()
    for (const item of (await (await fetch("/items")).json()).items) show(item)
  }
  source.onmessage = event => show(JSON.parse(event.data))
  document.getElementById("form").onsubmit = event => {
    event.preventDefault()
    fetch("/items", { method: "POST", body: JSON.stringify({ text: text.value }) })
    text.value = ""
  }
</script>]]
end)

local server = assert(http.serve(tonumber(arg[1]) or 8080, app))
print("http://" .. server:address() .. "/")
