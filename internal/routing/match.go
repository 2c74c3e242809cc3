package routing

// Matches reports whether events of the subject are of the type.
func (t TypeMapping) Matches(subject string) bool { return covers(t.Subject, subject) }
