// The sources of events for this process's descriptors.
#pragma once

/// The sources of the events that can make descriptors ready, by their distance. INSIDE: only this process, and
/// programs that wait for it. LISTENS: other processes that this process does not wait for specifically: they connect,
/// send signals, or change files. ON_THE_WAY: only this process, but its data is still on the way. OUTSIDE: other
/// processes or machines.
enum { LINUX_INSIDE, LINUX_LISTENS, LINUX_ON_THE_WAY, LINUX_OUTSIDE };
/// Returns the most distant source of the descriptors. The result holds only while no program that works has
/// descriptors of this process. Results are cached until a descriptor is closed. The cost is O(watched descriptors),
/// and O(open descriptors) if one of them is new.
int linux_surroundings(const int *watched, int count);
