// Threads for calls that block, as few as may be: they begin when there is work, and end when there is none for a while.
#pragma once

/// A pool, of which there are few and which live as long as the program. `limit` threads at most.
struct net_pool *net_pool_make(const char *name, int limit);
/// Has one of its threads call `work(context)`. Any thread may ask. 0, or an error number when there is no thread and none can
/// be made. Nobody ever waits for its threads: those that still work when the process ends, end with it.
int net_pool_run(struct net_pool *pool, void (*work)(void *context), void *context);
