package view

import "strings"

// environment is a list of NAME=value, as os.Environ gives it. It is what termenv asks.
type environment []string

// Environ gives the list.
func (e environment) Environ() []string { return e }

// Getenv gives the value of name, the last one that was set.
func (e environment) Getenv(name string) string {
	value := ""
	for _, entry := range e {
		if key, set, found := strings.Cut(entry, "="); found && key == name {
			value = set
		}
	}
	return value
}
