// What of the world outside may still bring something to this process's descriptors.
#pragma once

/// From where descriptors can become ready: from this process, and programs at rest, alone; from it, but by data that is still on the way;
/// by others, who owe no answer: they connect, send signals, change files; or from outside.
enum { LINUX_INSIDE, LINUX_LISTENS, LINUX_ON_THE_WAY, LINUX_OUTSIDE };
/// The furthest of all. Only true while no program that works has this process's descriptors. Knowledge of a descriptor is kept until it is
/// closed: O(watched), and O(open) when a new one is among them.
int linux_surroundings(const int *watched, int count);
