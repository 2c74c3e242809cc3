// Package bare is what the benchmarks measure a bridge against: the simplest programs that can do its work, with nothing
// in them that would slow them down. They are roles of a rig.
package bare
