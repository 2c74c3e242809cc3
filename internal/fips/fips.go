package fips

import (
	"crypto/fips140"
	"fmt"
)

// Mode is one of FIPS 140-3.
type Mode string

// The modes. In Only what is not approved fails or panics, in libraries too; Go calls it an aid to find such calls.
const (
	Off  Mode = "off"
	On   Mode = "on"
	Only Mode = "only"
)

// Variable is the environment variable from which Go reads the mode.
const Variable = "GODEBUG"

// unfrozen is what Go calls the module of a binary that was built without a frozen one.
const unfrozen = "latest"

// Parse reads a mode.
func Parse(text string) (Mode, error) {
	switch mode := Mode(text); mode {
	case Off, On, Only:
		return mode, nil
	default:
		return "", fmt.Errorf("%q: use %s, %s or %s", text, Off, On, Only)
	}
}

// Asked is false where the mode does not matter.
func (m Mode) Asked() bool { return m == On || m == Only }

// Setting is what the Variable has to say for the mode; empty: nothing. Under Only the key exchange of TLS that is
// preferred otherwise would fail, because one half of it is not approved.
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

// Running is the state of this process.
func Running() State {
	return State{Enabled: fips140.Enabled(), Enforced: fips140.Enforced(), Version: fips140.Version()}
}

// Mode is the one that a process is in.
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

// Check says what keeps a process in the state from being in the mode. One that is in a stricter one than it is asked for may go on.
func (m Mode) Check(s State) error {
	switch {
	case !m.Asked():
		return nil
	case !s.Enabled, m == Only && !s.Enforced:
		return fmt.Errorf("%s is asked for, and Go's FIPS 140-3 mode is %s: set %s=%s in the environment, as the chart does for fips.mode=%s",
			m, s.Mode(), Variable, m.Setting(), m)
	case s.Version == unfrozen:
		return fmt.Errorf("%s is asked for, and this binary has no frozen version of Go's FIPS 140-3 module: build it with GOFIPS140=v1.0.0, as the Dockerfile does", m)
	default:
		return nil
	}
}
