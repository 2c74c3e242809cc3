// Package flags declares the settings of a process, each once: its flag, default, help and bounds.
//
// Options declare their settings in one method, Flags. Bind calls it to add the flags to a command line, and Validate
// calls it to check the values, also of options that no command line has set. Every error of Validate names the flag,
// the bound and the value.
package flags
