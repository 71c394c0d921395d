-- Where the recording of a test goes: into a file that is named after it. The runner and its workers agree on that.

local concat, unpack, sub, gsub = table.concat, table.unpack, string.sub, string.gsub

--- directory: as --trace says it; file: the test's; path: its names. Relative to where the runner runs.
return function(directory, file, path)
  local name = gsub(concat({ (gsub(file, "%.lua$", "")), unpack(path) }, " "), "[^%w%-_. ]", "_")
  return directory .. "/" .. sub((gsub(name, "^[ .]+", "")), 1, 200) .. ".html"
end
