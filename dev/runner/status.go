package runner

import (
	"time"

	"github.com/rouse-run/rouse/dev/manifest"
)

// Phases of a Function.
const (
	Preparing = "preparing" // its dependencies or its source are being fetched
	Asleep    = "asleep"    // no replicas are wanted
	Waking    = "waking"    // replicas are wanted and none is ready yet
	Ready     = "ready"
	Reloading = "reloading" // the version before serves while the new one starts
	Failing   = "failing"   // it does not start, or it ends by itself; LastError has the reason
)

// Status is what is known of a Function.
type Status struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Runtime   string `json:"runtime"`
	// URL of the front port, which wakes the Function.
	URL   string `json:"url"`
	Phase string `json:"phase"`
	// LastError is why the newest version does not run, its first line being the whole of it in short; empty when
	// it runs.
	LastError string `json:"lastError,omitempty"`
	// Unprepared is set when there is nothing to start: its source, a reference or a dependency is missing.
	Unprepared bool `json:"-"`
	// FailedStarts is how often in a row the newest version ended before it was ready.
	FailedStarts int `json:"-"`
	// Doing is what its preparation waits for now, Since when; empty for nothing.
	Doing string    `json:"doing,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Debug is where a debugger connects, host:port; empty without one.
	Debug   string `json:"debug,omitempty"`
	Desired int    `json:"desired"`
	Ready   int    `json:"ready"`
	// Wakes counts how often it went from no replicas to some, Restarts how often it ended by itself.
	Wakes    int `json:"wakes"`
	Restarts int `json:"restarts"`
	// LastWake is how long the last wake took until a replica was ready.
	LastWake time.Duration     `json:"lastWake"`
	At       manifest.Position `json:"at"`
}
