-- A random order that a seed determines.

-- The order comes from a generator of its own, so that shuffling does not change the values of math.random in tests.

--- Returns a function that shuffles lists. Different texts give different orders.
return function(seed, text)
  local state = seed & 0xffffffff
  for i = 1, #text do state = (state * 31 + text:byte(i)) & 0xffffffff end
  return function(list)
    for i = #list, 2, -1 do
      state = (state * 1664525 + 1013904223) & 0xffffffff
      local j = (state >> 8) % i + 1
      list[i], list[j] = list[j], list[i]
    end
  end
end
