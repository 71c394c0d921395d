-- runloop.json: the texts and values that it accepts, those that it refuses, and its results.

local t = require "runloop.test"
local json = require "runloop.json"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local problem_of = support.problem_of

local function decode(text) return (json.decode(text)) end

-- The cases of Nicolas Seriot's collection "JSONTestSuite", restated.
local ACCEPTED = {
  "[[]   ]", '[""]', "[]", '["a"]', "[false]", '[null, 1, "1", {}]', "[null]", "[1\n]", " [1]", "[1,null,null,null,2]",
  "[2] ",
  "[123e65]", "[0e+1]", "[0e1]", "[ 4]",
  "[-0.000000000000000000000000000000000000000000000000000000000000000000000000000001]",
  "[20e1]", "[-0]", "[-123]", "[-1]", "[1E22]", "[1E-2]", "[1E+2]", "[123e45]", "[123.456e78]", "[1e-2]", "[1e+2]",
  "[123]",
  "[123.456789]", '{"asd":"sdf", "dfg":"fgh"}', '{"asd":"sdf"}', '{"a":"b","a":"c"}', '{"a":"b","a":"b"}', "{}",
  '{"":0}',
  '{"foo\\u0000bar": 42}', '{ "min": -1.0e+28, "max": 1.0e+28 }',
  '{"x":[{"id": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}], "id": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}',
  '{"a":[]}',
  '{"title":"\\u041f\\u043e\\u043b\\u0442\\u043e\\u0440\\u0430 '
    .. '\\u0417\\u0435\\u043c\\u043b\\u0435\\u043a\\u043e\\u043f\\u0430" }',
  '{\n"a": "b"\n}', '["\\u0060\\u012a\\u12AB"]', '["\\uD801\\udc37"]', '["\\ud83d\\ude39\\ud83d\\udc8d"]',
  '["\\"\\\\\\/\\b\\f\\n\\r\\t"]', '["\\\\u0000"]', '["\\""]', '["a/*b*/c/*d//e"]', '["\\\\a"]', '["\\\\n"]',
  '["\\u0012"]',
  '["\\uFFFF"]', '["asd"]', '[ "asd"]', '["\\uDBFF\\uDFFF"]', '["new\\u00A0line"]', '["\u{10FFFF}"]', '["\u{FFFF}"]',
  '["\\u0000"]',
  '["\\u002c"]', '["\u{3C0}"]', '["\u{1BFFF}"]', '["asd "]', '" "', '["\\uD834\\uDd1e"]', '["\\u0821"]', '["\\u0123"]',
  '["\u{2028}"]', '["\u{2029}"]', '["\\u0061\\u30af\\u30EA\\u30b9"]', '["new\\u000Aline"]', '["\127"]', '["\\uA66D"]',
  '["\\u005C"]',
  '["\u{2342}\u{3260}"]', '["\\uDBFF\\uDFFE"]', '["\\uD83F\\uDFFE"]', '["\\u200B"]', '["\\u2064"]', '["\\uFDD0"]',
  '["\\uFFFE"]',
  '["\\u0022"]', '["\u{20AC}\u{1D11E}"]', '["a\127a"]', "false", "42", "-0.1", "null", '"asd"', "true", '""', '["a"]\n',
  "[true]",
  "\t[]", " [] ",
}

local REFUSED = {
  '[1 true]', "[a\xe5]", '["": 1]', '[""],', "[,1]", "[1,,2]", '["x",,]', '["x"]]', '["",]', '["x"', "[x", "[3[4]]",
  "[\xff]", "[1:2]",
  "[,]", "[-]", "[   , \"\"]", '["a",\n4\n,1,', "[1,]", "[1,,]", '["\va"\\f]', "[*]", '[""', "[1,", "[1,\n1\n,1", "[{}",
  "[fals]", "[nul]",
  "[tru]", "123\0", "[++1234]", "[+1]", "[+Inf]", "[-01]", "[-1.0.]", "[-2.]", "[-NaN]", "[.-1]", "[.2e-3]", "[0.1.2]",
  "[0.3e+]", "[0.3e]",
  "[0.e1]", "[0E+]", "[0E]", "[0e+]", "[0e]", "[1.0e+]", "[1.0e-]", "[1.0e]", "[1 000.0]", "[1eE2]", "[2.e+3]",
  "[2.e-3]", "[2.e3]",
  "[9.e+]", "[Inf]", "[NaN]", "[\u{FF11}]", "[1+2]", "[0x1]", "[0x42]", "[Infinity]", "[0e+-1]", "[-123.123foo]",
  "[123\xe5]", "[1e1\xe5]",
  "[0\xe5]\n", "[-Infinity]", "[-foo]", "[- 1]", "[-012]", "[-.123]", "[-1x]", "[1ea]", "[1e\xe5]", "[1.]", "[.123]",
  "[1.2a-3]",
  "[1.8011670033376514H-308]", "[012]", '["x", truth]', '{[: "x"}\n', '{"x", null}', '{"x"::"b"}',
  "{\u{1F1E8}\u{1F1ED}}", '{"a":"a" 123}',
  '{key: \'value\'}', '{"\xb9":"0",}', '{"a" b}', '{:"b"}', '{"a" "b"}', '{"a":', '{"a"', '{1:1}', "{9999E9999:1}",
  "{null:null,null:null}",
  '{"id":0,,,,,}', "{'a':0}", '{"id":0,}', '{"a":"b"}/**/', '{"a":"b"}/**//', '{"a":"b"}//', '{"a":"b"}/',
  '{"a":"b",,"c":"d"}',
  '{a: "b"}', '{"a":"a', '{ "foo" : "bar", "a" }', '{"a":"b"}#', " ", '["\\uD800\\"]', '["\\uD800\\u"]',
  '["\\uD800\\u1"]',
  '["\\uD800\\u1x"]', '[\u{E9}]', '["\\\0"]', '["\\x00"]', '["\\\\\\"]', '["\\\t"]', '["\\\u{1F300}"]', '["\\"]',
  '["\\u00A"]',
  '["\\uD834\\uDd"]', '["\\uD800\\uD800\\x"]', '["\\u\xe5"]', '["\\a"]', '["\\uqqqq"]', '["\\\xe5"]',
  "[\\u0020\"asd\"]", "[\\n]",
  '"', "['single quote']", "abc", '["\\', '["a\0a"]', '["new\nline"]', '["\t"]', '"\\UA66D"', '""x', "<.>", "[<null>]",
  "[1]x", '[1]]',
  '["asd]', "a\u{E5}", "[True]", "1]", '{"x": true,', "[][]", "]", "\xef\xbb{}", "\xe5", "[", "", "[\0]", "2@", "{}}",
  "{\"\":", '{"a":/*comment*/"b"}',
  '{"a": true} "x"', "['", '["a', "[,", "[{", '["a"', '{', "{]", "{,", "{[", '{"a', "{'a'", '["\\{["\\{["\\{["\\{',
  "\xe9", "*",
  '{"a":"b"}#{}', "[\\u000A\"\"]", "[1", "[ false, nul", "[ true, fals", "[ false, tru", '{"asd":"asd"', "\u{E5}",
  "[\u{2060}]", "\u{FEFF}",
  "[\f]", '{"a":1 "b":2}', '["a" "b"]', ("["):rep(100000), ('[{"":'):rep(50000) .. "\n", "[1]\v", "\u{A0}[1]", "nulL",
  "TRUE", "+1", "01",
}

t.describe("JSON text", function()
  t.it("is accepted if it is valid", function()
    for _, text in ipairs(ACCEPTED) do
      local value, problem = json.decode(text)
      t.equal(problem, nil, text)
      t.truthy(value ~= nil, text)
      t.equal(decode(json.encode(value)), value, text)
    end
  end)

  t.it("is refused if it is invalid", function()
    for _, text in ipairs(REFUSED) do
      local value, problem, code = json.decode(text)
      t.equal(value, nil, text)
      t.truthy(problem and problem:find "^line %d+, column %d+: ", text)
      t.equal(code, "EBADMSG")
    end
  end)

  t.it("may begin with a byte order mark", function() t.equal(decode "\u{FEFF}{}", {}) end)

  t.it("may be 1,000 levels deep, and no deeper", function()
    t.truthy(json.decode(("["):rep(1000) .. ("]"):rep(1000)))
    local _, problem = json.decode(("["):rep(1001) .. ("]"):rep(1001))
    t.equal(problem, "line 1, column 1001: more than 1000 nested arrays and objects")
    local nested = {}
    for _ = 1, 999 do nested = { nested } end
    t.equal(json.encode(nested), ("["):rep(999) .. "{}" .. ("]"):rep(999))
    t.truthy(problem_of(json.encode, { nested }):find("more than 1000 nested tables"))
  end)

  t.it("is refused with line and column, counted in characters", function()
    local function problem(text) return (select(2, json.decode(text))) end
    t.equal(problem '{"a":\n  [1, tru]}', "line 2, column 7: expected a value, found 't'")
    t.equal(problem '["äöü" 1]', "line 1, column 8: expected ',' or ']', found '1'")
    t.equal(problem '{"a":1', "line 1, column 7: expected ',' or '}', found the end")
    t.equal(problem '["abc', "line 1, column 2: this string is not terminated")
    t.equal(problem '["\xff"]', "line 1, column 3: these bytes are not UTF-8")
    t.equal(problem '["\xed\xa0\x80"]', "line 1, column 3: these bytes are not UTF-8")
    t.equal(problem '["\\ud800x"]', "line 1, column 3: half of a surrogate pair, without the other half")
    t.equal(problem '["\\udc00"]', "line 1, column 3: half of a surrogate pair, without the other half")
    t.equal(problem "[1e999]", "line 1, column 2: this number is larger than any float")
    t.equal(problem "[\x01]", "line 1, column 2: expected a value, found the byte 0x01")
  end)
end)

t.describe("numbers", function()
  t.it("that are integers stay integers", function()
    for _, number in ipairs { 0, 1, -1, 9007199254740993, math.maxinteger, math.mininteger } do
      local text = json.encode(number)
      t.equal(text, ("%d"):format(number))
      t.equal(math.type(decode(text)), "integer")
      t.equal(decode(text), number)
    end
  end)

  t.it("beyond the range of integers are floats", function()
    t.equal(math.type(decode "9223372036854775808"), "float")
    t.equal(decode "-9223372036854775809", -2.0 ^ 63)
    t.equal(decode "123456789012345678901234567890", 123456789012345678901234567890)
  end)

  t.it("that are floats are read back unchanged", function()
    local seed = 20261122
    math.randomseed(seed)
    local cases = { 0.1, 1.0, -2.5, 1e15, 1e21, 1e22, 1e23, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
      2 ^ 53, 1 / 3, 1e-5 }
    for _ = 1, 20000 do
      local float = string.unpack("d", string.pack("j", math.random(0)))
      if float - float == 0 then cases[#cases + 1] = float end
    end
    for _, number in ipairs(cases) do
      local text = json.encode(number)
      local back = decode(text)
      t.truthy(math.type(back) == "float" and back == number, text .. ", seed " .. seed)
      t.truthy(#text <= 24, text)
    end
  end)

  t.it("are written in the shortest form", function()
    t.equal(json.encode { 0.1, 1.0, 100.0, 1e100, 1.5e-7, 0.3, 123.456, 2 ^ 70 },
      "[0.1,1.0,100.0,1e+100,1.5e-7,0.3,123.456,1.1805916207174113e+21]")
  end)

  t.it("keep the sign of zero", function()
    t.equal(json.encode(-0.0), "-0.0")
    t.equal(1 / decode "-0.0", -math.huge)
    t.equal({ math.type(decode "-0"), json.encode(decode "-0") }, { "integer", "0" })
    t.equal(math.type(decode "0"), "integer")
  end)

  t.it("do not depend on the locale", function()
    local before = os.setlocale(nil, "numeric")
    for _, name in ipairs { "de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8" } do
      if os.setlocale(name, "numeric") then break end
    end
    local text, number = json.encode { 1.5, 1e-300 }, decode "1.00000000000000000000001e-3"
    os.setlocale(before, "numeric")
    t.equal(text, "[1.5,1e-300]")
    t.equal(number, 0.001)
  end)

  t.it("that are malformed are refused", function()
    t.equal(problem_of(json.encode, { x = { 0 / 0 } }), "json.encode: not a number (nan) cannot be written (at x[1])")
    t.equal(problem_of(json.encode, -math.huge), "json.encode: an infinite number cannot be written")
  end)
end)

t.describe("strings", function()
  t.it("are written with the escapes that JSON requires", function()
    t.equal(json.encode 'a"b\\c/\b\f\n\r\t\0\31\127é😀', [["a\"b\\c/\b\f\n\r\t\u0000\u001f\u007fé😀"]])
  end)

  t.it("are read back unchanged, whatever their length", function()
    for length = 0, 300 do
      local text = ("x\n"):rep(length):sub(1, length)
      t.equal(decode(json.encode(text)), text)
    end
    local long = ("\1é"):rep(100000)
    t.equal(decode(json.encode(long)), long)
  end)

  t.it("that are not UTF-8 are refused", function()
    for _, text in ipairs { "\xff", "\xc0\x80", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80" } do
      t.equal(problem_of(json.encode, { name = text }), "json.encode: a string is not UTF-8 (at name)")
    end
  end)
end)

t.describe("tables", function()
  t.it("are written as arrays or objects according to their keys", function()
    t.equal(json.encode { 1, "two", true, json.null }, '[1,"two",true,null]')
    t.equal(json.encode { a = { b = {} } }, '{"a":{"b":{}}}')
    local backwards = {}
    for i = 5, 1, -1 do backwards[i] = i end
    t.equal(json.encode(backwards), "[1,2,3,4,5]")
  end)

  t.it("have the kind that json.array and json.object set", function()
    t.equal(json.encode { json.array(), json.object() }, "[[],{}]")
    t.equal(json.encode(json.array { 1, nil, 3 }), "[1,null,3]")
    t.equal(json.encode(json.object { "one" }), '{"1":"one"}')
    t.equal(json.encode(json.object { [1.5] = 1 }), '{"1.5":1}')
    local same = {}
    t.truthy(rawequal(json.array(same), same))
    t.equal(json.encode(json.object(same)), "{}")
  end)

  t.it("that were read keep their kind, also when they are emptied", function()
    for _, text in ipairs { "[]", "{}", '{"a":[]}', "[[],{}]" } do t.equal(json.encode(decode(text)), text) end
    local read = decode '{"tags":["a"]}'
    table.remove(read.tags)
    t.equal(json.encode(read), '{"tags":[]}')
  end)

  t.it("that are neither arrays nor objects raise an error with their place", function()
    t.truthy(problem_of(json.encode, { list = { 1, 2, nil, 4 } }):find("a table has holes: .*json%.null"))
    t.truthy(problem_of(json.encode, { 1, name = 2 }):find("numbers and 'name' as keys"))
    t.truthy(problem_of(json.encode,
      { users = { { callback = print } } }):find("a function cannot be written %(at users%[1%]%.callback%)"))
    t.truthy(problem_of(json.encode, { [true] = 1 }):find("a boolean cannot be the name of a field"))
    t.truthy(problem_of(json.encode, json.array { a = 1 }):find("an array has the key 'a'"))
    for _, value in ipairs { json.array { [3000000] = 1 }, { list = json.array { [3000000] = 1 } } } do
      t.truthy(problem_of(json.encode,
        value):find("an array has only 1 of 3000000 values: mark it with json.object"
          .. (value.list and " %(at list%)$" or "$")))
    end
    t.truthy(problem_of(json.encode, json.array { [1 << 40] = 1 }):find("an array has only"))
    t.equal(#json.encode(json.array { [1000] = 1 }), 999 * 5 + 3)
    local full = json.array {}
    for place = 1, 110 do full[place * 10] = place end
    t.equal(select(2, json.encode(full):gsub("null", "")), 990)
    t.truthy(problem_of(json.encode, { a = json.object { [1] = 1,
      ["1"] = 2 } }):find('the keys 1 and "1" both become the name "1" (at a', 1, true))
    t.truthy(problem_of(json.encode, json.object { [0.5] = 1, ["0.5"] = 2 }):find('keys 0.5 and "0.5" both become', 1,
      true))
    t.equal(json.decode(json.encode(json.object { [1] = 1, ["01"] = 2, [-1] = 3 })),
      { ["1"] = 1, ["01"] = 2, ["-1"] = 3 })
    t.truthy(problem_of(json.encode, coroutine.create(print)):find("a thread cannot be written"))
    t.truthy(problem_of(json.encode, io.stdout):find("a userdata cannot be written"))
    local ring = {}
    ring.ring = ring
    t.truthy(problem_of(json.encode, ring):find("does one contain itself"))
    t.equal(json.encode { 1 }, "[1]")
  end)

  t.it("are written on several lines if the option is set", function()
    t.equal(json.encode({ { a = 1 }, {}, json.array() }, { indent = 2 }), '[\n  {\n    "a": 1\n  },\n  {},\n  []\n]')
    t.equal(json.encode({ 1 }, { indent = "\t" }), "[\n\t1\n]")
    t.equal(json.encode({ 1 }, { indent = true }), "[\n  1\n]")
    t.equal(json.encode({ 1 }, { indent = 0 }), "[\n1\n]")
    t.equal(json.encode({ 1 }, { indent = false }), "[1]")
  end)

  t.it("are written in the order of their names if the option is set", function()
    local function sorted(value, indent) return json.encode(value, { sort = true, indent = indent }) end
    local value, expected = {}, {}
    for i = 1, 100 do
      value["n" .. i], expected[i] = i, "n" .. i
    end
    table.sort(expected)
    for i, name in ipairs(expected) do expected[i] = ('"%s":%d'):format(name, value[name]) end
    t.equal(sorted(value), "{" .. table.concat(expected, ",") .. "}")
    t.equal(sorted { b = { d = 1, c = { {}, json.array(), { f = 2, e = 3 } } }, a = json.null, aa = "", ["\u{e9}"] = 1,
      ["\u{1F600}"] = 2, [""] = 0 },
      '{"":0,"a":null,"aa":"","b":{"c":[{},[],{"e":3,"f":2}],"d":1},"\u{e9}":1,"\u{1F600}":2}')
    t.equal(sorted(json.object { [10] = 1, [9] = 2, ["1"] = 3, [2.5] = 4 }), '{"1":3,"10":1,"2.5":4,"9":2}')
    t.equal(sorted({ b = 1, a = { 1, json.array { nil, 2 } } }, 1),
      '{\n "a": [\n  1,\n  [\n   null,\n   2\n  ]\n ],\n "b": 1\n}')
    t.equal({ sorted {}, sorted(json.object()), sorted "x" }, { "{}", "{}", '"x"' })
    t.equal(json.encode({ a = 1 }, { sort = false }), '{"a":1}')
    t.equal(sorted(json.decode(sorted(value))), sorted(value))
    -- The message has the path to the value.
    t.truthy(problem_of(json.encode, { users = { { callback = print, a = { {} } } } },
      { sort = true }):find("a function cannot be written %(at users%[1%]%.callback%)"))
    t.truthy(problem_of(json.encode, { a = { [true] = 1, x = 2 } },
      { sort = true }):find("a boolean cannot be the name of a field"))
    t.truthy(problem_of(json.encode, { x = 1, [1] = 2, [7] = 3 }, { sort = true }):find "keys")
    local ring = {}
    ring.ring = ring
    t.truthy(problem_of(json.encode, ring, { sort = true }):find("does one contain itself"))
    local deep, depth = {}, 1
    while depth < 1000 do deep, depth = { a = deep, b = depth }, depth + 1 end
    t.equal(json.encode(json.decode(sorted(deep)), { sort = true }), sorted(deep))
  end)
end)

t.describe("misuse", function()
  t.it("names the function and the argument", function()
    t.equal(problem_of(json.decode), "json.decode: argument #1 must be a string, got nothing")
    t.equal(problem_of(json.decode, 5), "json.decode: argument #1 must be a string, got 5")
    t.equal(problem_of(json.encode), "json.encode: argument #1 must be a value, got nothing")
    t.equal(problem_of(json.encode, 1, 2), "json.encode: argument #2 must be a table of options, got 2")
    t.equal(problem_of(json.encode, 1, { ident = 2 }),
      "json.encode: unknown field 'ident' (did you mean 'indent'?)")
    t.equal(problem_of(json.encode, 1, { x = 2 }), "json.encode: unknown field 'x' (there are: indent, sort)")
    t.equal(problem_of(json.encode, 1, { sort = 1 }), "json.encode: field 'sort' must be a boolean, got 1")
    t.equal(problem_of(json.encode, 1, { indent = 17 }),
      "json.encode: field 'indent' must be from 0 to 16 blanks, got 17")
    t.equal(problem_of(json.encode, 1, { indent = "x" }),
      "json.encode: field 'indent' must consist of blanks and tabs, got \"x\"")
    t.equal(problem_of(json.array, 1), "json.array: argument #1 must be a table, got 1")
    t.truthy(problem_of(json.object, setmetatable({}, {})):find("json%.object: the table has a metatable of its own"))
    t.truthy(problem_of(json.lines,
      5):find("json%.lines: argument #1 must be a stream, a file or an iterator of lines, got 5"))
    local stream <close> = require "runloop.net".memory()
    t.equal(problem_of(json.lines, stream, 3), "json.lines: argument #2 must be a table of options, got 3")
  end)
end)

t.describe("json.lines", function()
  t.it("reads a value from each line", function()
    local lines = ('{"a":1}\n\n  \r\n[2]\nnull\n'):gmatch "([^\n]*)\n"
    local seen = {}
    for value in json.lines(lines) do seen[#seen + 1] = value end
    t.equal(seen, { { a = 1 }, { 2 }, json.null })
  end)

  t.it("reads files", function()
    local file <close> = assert(io.tmpfile())
    file:write "1\n2.5\n"
    file:seek "set"
    local sum = 0
    for number in json.lines(file) do sum = sum + number end
    t.equal(sum, 3.5)
  end)

  t.it("names the line that is wrong", function()
    local following = json.lines(("1\n\n[2\n"):gmatch "([^\n]*)\n")
    t.equal(following(), 1)
    t.equal(problem_of(following), "json.lines: line 3: column 3: expected ',' or ']', found the end")
  end)
end)

t.describe("docs/lua/runloop-json.lua", function()
  t.it("has every function, and no other", function()
    local root = debug.getinfo(1, "S").source:match "^@(.*)Tests/"
    local file <close> = assert(io.open(root .. "docs/lua/runloop-json.lua"))
    local annotated, existing = {}, {}
    for name in file:read("a"):gmatch "\nfunction json%.([%a_]+)%(" do annotated[name] = true end
    for name, value in pairs(json) do existing[name] = type(value) == "function" or nil end
    t.equal(annotated, existing)
  end)
end)
