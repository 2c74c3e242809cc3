// Package instance finds a running local mode by the folder that it serves.
//
// Each folder has a state folder, which holds the persistent state, a lock and, while a local mode runs, the file
// instance.json with its addresses and its token. Only its owner can read the file.
//
// It guarantees:
//   - one local mode per folder: the kernel releases the lock of a killed process;
//   - an instance that Find returns was running when it checked. The file of a killed process is ignored.
package instance
