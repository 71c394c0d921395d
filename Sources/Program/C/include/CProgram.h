// What the program does before Swift's runtime begins.
#pragma once

/// Has the process say, before it ends by a trap of Swift's, abort() or a fault of its own, that memory was short, or that something inside
/// has failed. The status is 1 in the first case. Called by the loader: Swift's runtime, too, ends a process that has no memory for it to begin with.
void program_explain_traps(void);
