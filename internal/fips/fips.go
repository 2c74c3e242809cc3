package fips

import (
	"crypto/fips140"
	"fmt"
)

// Mode is a mode of FIPS 140-3.
type Mode string

// The modes. In Only all algorithms that are not approved fail or panic, in libraries too; Go describes it as an aid to
// find such calls.
const (
	Off  Mode = "off"
	On   Mode = "on"
	Only Mode = "only"
)

// Variable is the environment variable from which Go reads the mode.
const Variable = "GODEBUG"

// unfrozen is the version that Go reports for the module of a binary built without a frozen one.
const unfrozen = "latest"

// Parse parses the name of a mode.
func Parse(text string) (Mode, error) {
	switch mode := Mode(text); mode {
	case Off, On, Only:
		return mode, nil
	default:
		return "", fmt.Errorf("%q: use %s, %s or %s", text, Off, On, Only)
	}
}

// Asked reports whether the mode is a requirement.
func (m Mode) Asked() bool { return m == On || m == Only }

// Setting returns the value of Variable for the mode, or an empty string. Under Only it disables TLS's default key
// exchange, which would fail, because one half of it is not approved.
func (m Mode) Setting() string {
	switch m {
	case On:
		return "fips140=on"
	case Only:
		return "fips140=only,tlsmlkem=0"
	default:
		return ""
	}
}

// State is the FIPS state that Go reports for the process.
type State struct {
	Enabled, Enforced bool
	Version           string // of the module
}

// Running returns the state of this process.
func Running() State {
	return State{Enabled: fips140.Enabled(), Enforced: fips140.Enforced(), Version: fips140.Version()}
}

// Mode returns the mode of the process.
func (s State) Mode() Mode {
	switch {
	case s.Enforced:
		return Only
	case s.Enabled:
		return On
	default:
		return Off
	}
}

// Check returns an error if a process in the state is not in the mode. A stricter mode than the requested one is
// accepted.
func (m Mode) Check(s State) error {
	switch {
	case !m.Asked():
		return nil
	case !s.Enabled, m == Only && !s.Enforced:
		return fmt.Errorf("%s is requested, but Go's FIPS 140-3 mode is %s: set %s=%s in the environment, as the chart does for fips.mode=%s",
			m, s.Mode(), Variable, m.Setting(), m)
	case s.Version == unfrozen:
		return fmt.Errorf("%s is requested, but this binary has no frozen version of Go's FIPS 140-3 module: build it with GOFIPS140=v1.0.0, as the Dockerfile does", m)
	default:
		return nil
	}
}
