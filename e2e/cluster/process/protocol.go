package process

import "time"

// Program is one program to start.
type Program struct {
	Name string   `json:"name"`
	Path string   `json:"path"`
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"`
	Log  string   `json:"log"`
	// Init is true of the init of a further node, in namespaces of its own within those of the first.
	Init bool `json:"init,omitempty"`
}

// Status is what became of a program.
type Status struct {
	Name    string    `json:"name"`
	PID     int       `json:"pid"` // in the PID namespace of the cluster
	Running bool      `json:"running"`
	Exit    string    `json:"exit,omitempty"`
	Log     string    `json:"log"`
	Started time.Time `json:"started"`
}

// Settings is what the init needs to know before it serves.
type Settings struct {
	State    string   `json:"state"`
	Keep     []string `json:"keep"` // directories that stay visible, though one above them is hidden
	Hostname string   `json:"hostname"`
}

const (
	socketName   = "init.sock"
	settingsName = "init"
	programsPath = "/programs"
)
