-- runloop.trace.activity: what the loops of this process did in the last second, as their recorders have it.

return (...).activity
