// Package instance finds a running local mode by the folder that it serves.
//
// Each folder has a state folder, which holds what survives a restart, a lock and, while a local mode runs, the file
// instance.json with its addresses and its token. The file can be read by its owner alone.
//
// It guarantees:
//   - one local mode per folder: the lock is the kernel's, so that a process that was killed holds it no longer;
//   - what Find returns was running when it checked. A file that a killed process left behind is not believed.
package instance
