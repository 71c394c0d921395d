---@meta runloop.encoding

-- Every call of the module `runloop.encoding`: bytes as text, and back, as RFC 4648 defines it. Every thread may use
-- it.

---@class runloop.encoding
local encoding = {}

---Forms of bytes as text: "hex" in lower case; "base64"; "base64url", which needs no escapes in URLs and names of
---files; "base32", which people can type.
---@alias runloop.encoding.Form "hex"|"base64"|"base64url"|"base32"

---Writes bytes as text. "base64" and "base32" are padded, "base64url" is not.
---@param bytes string
---@param form runloop.encoding.Form
---@return string text
function encoding.encode(bytes, form) end

---How `decode` reads. `lenient`: blanks and line ends are ignored, padding may be missing, and base32 may be in
---lower case, as in PEM files, mails, and secrets of one-time passwords.
---@class runloop.encoding.Options
---@field lenient? boolean false if absent

---Reads a text. It is strict, so that two texts never mean the same bytes: it refuses blanks, missing or additional
---padding, and unused bits that are not 0. "hex" may be in upper or lower case; "base64url" may have its padding.
---
---Another text gives nil, `"base64: byte 5 is '*'"`, `"EBADMSG"`.
---@param text string
---@param form runloop.encoding.Form
---@param options? runloop.encoding.Options
---@return string? bytes
---@return string? problem
---@return string? code
function encoding.decode(text, form, options) end

return encoding
