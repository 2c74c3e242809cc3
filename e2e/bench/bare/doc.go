// Package bare has the baselines of the benchmarks: the simplest programs that can do a bridge's work, with nothing
// in them that would slow them down. They are roles of a rig.
package bare
