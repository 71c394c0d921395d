// What of the world outside may still bring something to this process.
#pragma once

/// The process that inherits what this one's programs leave behind; 0: nobody.
void linux_set_keeper(int process);
/// The processes, alive or not yet waited for, that one has begun, or inherited from others.
int linux_children_of(int process, int *found, int most);
/// The programs that run for this process: its children, and those that they have left to the keeper. Returns how many.
int linux_programs(int *found, int most);
/// Whether there is any. For a fraction of the price, if there never was one.
int linux_programs_run(void);
/// Whether one of this process's threads waits in a system call, and how often it has begun to; -1 if there is none.
int linux_thread_rests(int thread, long *switches);

/// From where descriptors can become ready: from this process alone; from it, but by data that is still on the way; by anybody
/// who connects to them; or from outside.
enum { LINUX_INSIDE, LINUX_LISTENS, LINUX_ON_THE_WAY, LINUX_OUTSIDE };
/// The furthest of all. Only true while no other program has this process's descriptors. O(descriptors open).
int linux_surroundings(const int *watched, int count);
