package process

import "time"

// Streams that a Line may come from.
const (
	Stdout = "stdout"
	Stderr = "stderr"
	Rouse  = "rouse" // what local mode itself reports about a Function
)

// Line is one line that a Function printed, or that local mode reports about it.
type Line struct {
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`
	Function  string    `json:"function"`
	// Replica names the process, such as "pricing-2"; empty when the line is about none.
	Replica string `json:"replica"`
	// Stream is Stdout, Stderr or Rouse.
	Stream string `json:"stream"`
	Text   string `json:"text"`
	// Problem marks what local mode reports about why a Function does not run.
	Problem bool `json:"-"`
}
