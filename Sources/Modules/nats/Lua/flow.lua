-- runloop.nats.flow: messages in recordings: a span for each request, and the number under which both ends of a message
-- record it. The number and the sender's clock travel in a header, "Rl-Flow", beside W3C's "traceparent".
--
-- Messages get both headers while everything is recorded into a file, and always on a bus that exposes "trace". While
-- only the last moments are recorded, messages get no such headers: they cost time, and other clients would see them.

local system = ...

local find, match, sub = string.find, string.match, string.sub
local setmetatable, next, type, running = setmetatable, next, type, coroutine.running
local label, begins, departs, arrives = system.label, system.begins, system.departs, system.arrives
local departing = system.departing

local flow = { ends = system.ends }

-- Labels of subjects in recordings. The cache is emptied when it has this number of labels.
local KEPT = 1000
local labels, count = {}, 0

local function label_of(subject)
  if count >= KEPT then labels, count = {}, 0 end
  -- All inboxes share a label: each is used once, and there is room for only some thousand labels.
  local number = label(match(subject, "^_INBOX%.") and "_INBOX" or subject)
  labels[subject], count = number, count + 1
  return number
end

--- Begins the span of a request. Returns the span's number, for `flow.ends(number, result, has_failed)`; nil if nothing
--- is recorded.
function flow.begins(subject)
  local number = begins(labels[subject])
  if number == false then return begins(label_of(subject)) end
  return number
end

-- Traces --------------------------------------------------------------------------------------------------------------

-- For each coroutine: the trace of the message that the coroutine handles.
local traces, has_traces = setmetatable({}, { __mode = "k" }), false

--- Makes the calling task's requests part of a message's trace, until `flow.forget`.
local function follow(trace)
  traces[running()], has_traces = trace, true
end

function flow.forget() if has_traces then traces[running()] = nil end end

--- Returns the trace to which the calling task's requests belong; nil if there is none.
function flow.trace() return has_traces and traces[running()] or nil end

local Within = { __close = flow.forget }

--- Does the same as `follow` until the returned value is closed.
function flow.within(trace)
  if not trace then return nil end
  follow(trace)
  return setmetatable({}, Within)
end

-- Sending -------------------------------------------------------------------------------------------------------------

--- Records that a message with this subject leaves, and returns header lines for it; nil if it needs none. `headers`:
--- the headers of the script, which follow these lines. `is_answer`: the message answers one that had such header
--- lines.
function flow.lines(bus, subject, headers, is_answer)
  local always = is_answer or bus._exposes_trace
  if not departing(always) then return nil end
  local link = bus._link
  -- Subjects of the server itself, such as "$JS.API.INFO" and "$KV.settings.color", mean nothing to programs.
  if not link or link.info.headers ~= true or find(subject, "^%$") then return nil end
  local trace = nil
  if is_answer or headers and headers.traceparent ~= nil then
    trace = false
  elseif has_traces then
    trace = traces[running()]
  end
  return departs(labels[subject] or label_of(subject), trace, always)
end

--- Puts these lines before a script's headers, as text; `head` is nil if there are none. Returns the headers, and the
--- size of the message. If the message would then be larger than `most`, the lines are left out.
function flow.join(lines, head, size, most)
  local both = "NATS/1.0\r\n" .. lines .. (head and sub(head, 11) or "\r\n")
  if #both + size <= most then return both, #both + size end
  return head, head and #head + size or size
end

-- Receiving -----------------------------------------------------------------------------------------------------------

--- Takes the lines of a sender's recorder from a block of headers. Returns the block without them, nil if nothing is
--- left; the number with the sender's clock; and the trace.
function flow.take(text)
  local trace, parent, mark, stop =
    match(text, "^NATS/1%.0\r\ntraceparent: 00%-(%x+)%-(%x+)%-%x%x\r\nRl%-Flow: (%x+ %x+)\r\n()")
  if not trace or parent ~= sub(mark, 1, 16) or #trace ~= 32 then
    trace = nil
    mark, stop = match(text, "^NATS/1%.0\r\nRl%-Flow: (%x+ %x+)\r\n()")
    if not mark then return text end
  end
  if stop == #text - 1 then return nil, mark, trace end
  return "NATS/1.0\r\n" .. sub(text, stop), mark, trace
end

--- Like `flow.take`, for a table of headers. Returns the headers without those that the bus adds; then the number and
--- the trace.
function flow.sift(headers)
  local mark, parent = headers["Rl-Flow"], headers.traceparent
  if type(mark) ~= "string" then return headers end
  headers["Rl-Flow"] = nil
  local trace, span = nil, nil
  if type(parent) == "string" then trace, span = match(parent, "^00%-(%x+)%-(%x+)%-%x%x$") end
  if trace and #trace == 32 and span == sub(mark, 1, 16) then headers.traceparent = nil else trace = nil end
  return next(headers) ~= nil and headers or nil, mark, trace
end

--- Records that a message of another process with this subject has arrived.
function flow.arrives(message, subject) arrives(labels[subject] or label_of(subject), message._flow) end

--- Does the same in the task that handles the message. The task's requests then belong to the message's trace, even if
--- another program has sent only a `traceparent` header.
function flow.handles(message)
  if message._flow then flow.arrives(message, message.subject) end
  local trace, parent = message._trace, message.headers and message.headers.traceparent
  if not trace and type(parent) == "string" then trace = match(parent, "^%x%x%-(%x+)%-%x+%-%x%x") end
  if trace and #trace == 32 then follow(trace) end
end

return flow
