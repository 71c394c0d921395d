-- Describes Lua's own library, one line for each function, for `help`; and gives the results of its functions, for
-- completion.

local texts, arguments, returns = {}, {}, {}

for line in ([[
assert(value, message, ...)|Raises the message, or "assertion failed!", if the value is false or nil; otherwise returns all arguments.
collectgarbage(option, ...)|Runs or sets the garbage collector: "collect" (if absent), "count" (kilobytes in use), "step", "stop", "restart", "isrunning", "incremental", "generational".
dofile(filename)|Runs a file and returns what it returns; errors of it are raised.
error(message, level)|Raises an error. A text gets the position in front of it: of the caller of error (level 1, if absent), of its caller (2), or none (0).
getmetatable(object)|The metatable of a value, or its field __metatable; nil without one.
ipairs(t)|For a loop over t[1], t[2] … up to the first nil: for i, v in ipairs(t) do … end
load(chunk, chunkname, mode, env)|Compiles a text, or what a function returns piece by piece. Returns a function, or nil and what is wrong.
loadfile(filename, mode, env)|Compiles a file. Returns a function, or nil and what is wrong.
next(table, key)|The key that comes after another one in a table, in no particular order, and its value; the first for nil; nil at the end.
pairs(t)|For a loop over all keys and values of a table, in no particular order: for k, v in pairs(t) do … end
pcall(f, ...)|Calls a function. Returns true and its results, or false and the error.
print(...)|Writes its arguments, as tostring shows them, to standard output, with tabs between and a line break behind them.
rawequal(a, b)|Whether two values are the same, without asking __eq.
rawget(table, key)|A field of a table, without asking __index.
rawlen(value)|The length of a table or a string, without asking __len.
rawset(table, key, value)|Sets a field of a table, without asking __newindex. Returns the table.
require(name)|Loads a module once, and returns what it returned; then where it was found.
select(n, ...)|The arguments from the n-th on, from the end for a negative n; for "#", how many there are.
setmetatable(table, metatable)|Sets the metatable of a table, or removes it for nil. Returns the table.
tonumber(value, base)|A number for a text that is one, in a base from 2 to 36 if given; nil otherwise.
tostring(value)|A text for a value; that of __tostring if it has one.|string
type(value)|What a value is: "nil", "number", "string", "boolean", "table", "function", "thread" or "userdata".|string
warn(message, ...)|Emits a warning, put together from texts. "@on" and "@off" turn warnings on and off.
xpcall(f, handler, ...)|As pcall; the handler gets the error where it was raised, and its result is returned.
coroutine.close(co)|Ends a coroutine that is suspended or dead, and closes its variables. true, or false and an error.
coroutine.create(f)|A coroutine that will run f when it is resumed.|thread
coroutine.isyieldable(co)|Whether a coroutine, by default the running one, can yield.
coroutine.resume(co, ...)|Lets a coroutine run until it yields or ends. true and what it gave, or false and an error.
coroutine.running()|The running coroutine, and whether it is the main one.|thread
coroutine.status(co)|"running", "suspended", "normal" (it has resumed another) or "dead".|string
coroutine.wrap(f)|A function that resumes a new coroutine each time it is called, and raises its errors.
coroutine.yield(...)|Suspends the running coroutine; its arguments are what resume returns, what resume gets is returned.
debug.debug()|Reads and runs lines from standard input, until "cont".
debug.gethook(thread)|The hook of a thread, its mask and count.
debug.getinfo(thread, f, what)|A table about a function, or the one at a level of the stack: source, short_src, linedefined, currentline, name, nparams …|table
debug.getlocal(thread, f, index)|Name and value of a local variable at a level of the stack, or the name of a function's parameter.
debug.getmetatable(value)|The metatable of a value, whatever __metatable says.
debug.getregistry()|The table in which C code keeps Lua values.
debug.getupvalue(f, index)|Name and value of a variable that a function has from outside.
debug.getuservalue(u, n)|A value that belongs to a userdata.
debug.sethook(thread, hook, mask, count)|Has a function called at calls ("c"), returns ("r"), lines ("l") or after each `count` instructions.
debug.setlocal(thread, level, index, value)|Sets a local variable at a level of the stack. Returns its name.
debug.setmetatable(value, metatable)|Sets the metatable of any value.
debug.setupvalue(f, index, value)|Sets a variable that a function has from outside. Returns its name.
debug.setuservalue(u, value, n)|Sets a value that belongs to a userdata.
debug.traceback(thread, message, level)|A message with the stack behind it, as text.|string
debug.upvalueid(f, index)|Something that is equal for two functions that share the variable.
debug.upvaluejoin(f1, n1, f2, n2)|Lets a variable of one function be that of another one.
io.close(file)|Closes a file, by default the standard output.
io.flush()|Writes what the default output has in its buffer.
io.input(file)|Sets the default input, a file or a name; returns it.|file
io.lines(filename, ...)|For a loop over the lines of a file, or what formats as for read say.
io.open(filename, mode)|Opens a file: "r", "w", "a", "r+", "w+", "a+", with a "b" for binary. A file, or nil, message and number.|file
io.output(file)|Sets the default output, a file or a name; returns it.|file
io.popen(prog, mode)|Starts a program, to read its output ("r") or write its input ("w").|file
io.read(...)|Reads from the default input: "l" a line, "L" with its end, "n" a number, "a" everything, or a number of bytes.
io.tmpfile()|A file that is removed when it is closed.|file
io.type(value)|"file" for an open file, "closed file", or nil.
io.write(...)|Writes texts and numbers to the default output. Returns it.|file
file:close()|Closes the file. For a program: true, how it ended ("exit" or "signal"), and the number.
file:flush()|Writes what is in the buffer.
file:lines(...)|For a loop over the lines, or what formats as for read say.
file:read(...)|Reads: "l" a line, "L" with its end, "n" a number, "a" everything, or a number of bytes. nil at the end.
file:seek(whence, offset)|Moves to a place, counted from "set", "cur" or "end". Returns the place.
file:setvbuf(mode, size)|Sets the buffer: "no", "full" or "line".
file:write(...)|Writes texts and numbers. Returns the file, or nil and what is wrong.|file
math.abs(x)|The number without its sign.
math.acos(x)|The arc cosine, in radians.
math.asin(x)|The arc sine, in radians.
math.atan(y, x)|The arc tangent of y/x (x is 1 if absent), in radians, in the right quadrant.
math.ceil(x)|The smallest integer that is not less.
math.cos(x)|The cosine of an angle in radians.
math.deg(x)|Radians in degrees.
math.exp(x)|e to the power of x.
math.floor(x)|The largest integer that is not greater.
math.fmod(x, y)|The remainder of x/y, with the sign of x.
math.log(x, base)|The logarithm, natural if there is no base.
math.max(x, ...)|The greatest of its arguments.
math.min(x, ...)|The least of its arguments.
math.modf(x)|The integral and the fractional part.
math.rad(x)|Degrees in radians.
math.random(m, n)|A float from 0 to 1 (exclusive), an integer from 1 to m, or from m to n.
math.randomseed(x, y)|Sets the seed of the random numbers, at random without arguments.
math.sin(x)|The sine of an angle in radians.
math.sqrt(x)|The square root.
math.tan(x)|The tangent of an angle in radians.
math.tointeger(x)|The integer that a number is; nil if it is none.
math.type(x)|"integer", "float", or nil if x is not a number.
math.ult(m, n)|Whether m is less than n as unsigned integers.
os.clock()|Seconds of processor time that the program has used.
os.date(format, time)|A date as text, as strftime formats it, or as a table for "*t"; in UTC with "!" in front.|string
os.difftime(t2, t1)|Seconds from t1 to t2.
os.execute(command)|Has the shell run a command. true or nil, "exit" or "signal", and the number.
os.exit(code, close)|Ends the process: true (0), false (1) or a number; with close, after finalizers have run.
os.getenv(name)|A variable of the environment, or nil.|string
os.remove(filename)|Removes a file or an empty directory. true, or nil, message and number.
os.rename(oldname, newname)|Renames a file. true, or nil, message and number.
os.setlocale(locale, category)|Sets the locale; returns its name.
os.time(table)|Seconds since 1970, of now or of a table with year, month, day, hour, min, sec.
os.tmpname()|A name for a temporary file.|string
package.loadlib(libname, funcname)|Loads a C library, and returns a function of it.
package.searchpath(name, path, sep, rep)|The first file that a path with ? in it leads to; or nil and what was tried.
string.byte(s, i, j)|The bytes of a text from i (1) to j (i), as numbers.
string.char(...)|A text of bytes given as numbers.|string
string.dump(f, strip)|A function as binary text, for load.|string
string.find(s, pattern, init, plain)|Where a pattern matches first: start, end, captures; nil if nowhere. plain: no magic characters.
string.format(formatstring, ...)|Values put into a text: %d, %i, %u, %c, %x, %X, %o, %a, %e, %f, %g, %q, %s, %p, %%.|string
string.gmatch(s, pattern, init)|For a loop over all matches of a pattern: for word in s:gmatch "%a+" do … end
string.gsub(s, pattern, repl, n)|The text with matches replaced by a text (%1 for captures), a table's field or a function's result; and how many.|string
string.len(s)|How many bytes a text has.
string.lower(s)|The text in small letters.|string
string.match(s, pattern, init)|The captures of the first match, or all of it; nil if there is none.|string
string.pack(fmt, ...)|Values as binary text, laid out as a format says.|string
string.packsize(fmt)|How many bytes a format makes.
string.rep(s, n, sep)|The text n times, with something in between.|string
string.reverse(s)|The text with its bytes in reverse order.|string
string.sub(s, i, j)|The bytes from i to j (to the end if absent); negative ones count from the end.|string
string.unpack(fmt, s, pos)|The values in a binary text, and where it goes on.
string.upper(s)|The text in capital letters.|string
table.concat(list, sep, i, j)|The elements of a list in one text, with something in between.|string
table.insert(list, pos, value)|Puts a value into a list at a position, at the end if there is none.
table.move(a1, f, e, t, a2)|Copies the elements f to e of a list to position t on, in another one if given. Returns that.
table.pack(...)|A table of its arguments, with their number in field n.|table
table.remove(list, pos)|Takes an element out of a list, the last one if there is no position, and returns it.
table.sort(list, comp)|Sorts a list in place; comp(a, b) says whether a comes before b.
table.unpack(list, i, j)|The elements of a list, from i (1) to j (#list).
utf8.char(...)|A text of characters given as code points.|string
utf8.codepoint(s, i, j, lax)|The code points of the characters that begin from byte i (1) to j (i).
utf8.codes(s, lax)|For a loop over the characters of a text: for p, c in utf8.codes(s) do … end
utf8.len(s, i, j, lax)|How many characters a text has; nil and the place of the first byte that is wrong.
utf8.offset(s, n, i)|Where the n-th character from byte i on begins.
]]):gmatch "[^\n]+" do
  local name, list, text, result = line:match "^([%w.:]+)(%b())|([^|]*)|?(.*)$"
  texts[name], arguments[name] = text, list
  if result ~= "" then returns[name] = result end
end

return { texts = texts, returns = returns, title = function(name) return name .. (arguments[name] or "") end }
