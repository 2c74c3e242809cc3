package runner

// outlook is what the phase of a Function depends on.
type outlook struct {
	desired           int
	current, old      int // replicas that are ready
	prepared, blocked bool
	failures          int
}

// phaseOf is the phase of a Function. One that cannot be brought up to date is failing, also while an older
// version serves.
func phaseOf(o outlook) string {
	switch {
	case o.blocked:
		return Failing
	case !o.prepared:
		return Preparing
	case o.desired == 0:
		return Asleep
	case o.current > 0:
		return Ready
	case o.failures > 0:
		return Failing
	case o.old > 0:
		return Reloading
	default:
		return Waking
	}
}
