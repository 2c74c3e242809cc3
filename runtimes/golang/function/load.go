package function

import (
	"fmt"
	"net/http"
	"sync/atomic"
)

const (
	// loadPath is where the server says its load, for scaling by HTTP.
	loadPath = "/.well-known/rouse/load"
	// headerVia is in requests that are counted by who has sent them, too.
	headerVia = "Rouse-Via"
)

// sender is who has sent a request, in as far as it matters to the load.
type sender int

const (
	other sender = iota
	gateway
	eventbridge
	senders
)

func senderOf(header http.Header) sender {
	via := header[headerVia]
	switch {
	case len(via) != 1:
	case via[0] == "gateway":
		return gateway
	case via[0] == "eventbridge":
		return eventbridge
	}
	return other
}

// load counts the requests that have come, and those that are under way.
type load struct {
	requests atomic.Int64
	running  [senders]atomic.Int64
}

// begin counts a request until end is called with its sender.
func (l *load) begin(header http.Header) sender {
	from := senderOf(header)
	l.requests.Add(1)
	l.running[from].Add(1)
	return from
}

func (l *load) end(from sender) { l.running[from].Add(-1) }

// answer writes the counts as JSON.
func (l *load) answer(w http.ResponseWriter) {
	viaGateway, viaEventbridge := l.running[gateway].Load(), l.running[eventbridge].Load()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	running := l.running[other].Load() + viaGateway + viaEventbridge
	_, _ = fmt.Fprintf(w, `{"requests":%d,"running":%d,"viaGateway":%d,"viaEventbridge":%d}`, // who has asked may be gone
		l.requests.Load(), running, viaGateway, viaEventbridge)
}
