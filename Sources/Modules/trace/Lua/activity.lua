-- runloop.trace.activity: the activity of the loops of this process in the last second, from their recorders.

return (...).activity
