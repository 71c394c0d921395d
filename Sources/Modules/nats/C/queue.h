// The messages of one subscription that wait for its function, or for a task that receives them.
#pragma once

#include <lua.h>
#include <stddef.h>

/// The user values of a queue: a list of the messages, used as a ring; the subscription; and the sizes of the messages.
enum { QUEUE_LIST = 1, QUEUE_OWNER, QUEUE_SIZES };

/// The result of pushing a message. Bits.
enum {
  QUEUE_FULL = 1,     ///< it is the first message dropped since the queue was empty
  QUEUE_WOKEN = 2,    ///< it was added, and the owner has called `listen`
  QUEUE_CROWDED = 4,  ///< more than a thousand wait
};

/// Puts a message, at a stack index, into a queue. `size`: the bytes of its data. `is_marked`: it has headers, or the
/// number of a sender's recorder. May raise. Returns bits.
int nats_queue_push(lua_State *L, int queue, int message, size_t size, int is_marked);
/// Adds the functions of queues to the table on top of the stack.
void nats_queue_open(lua_State *L);
