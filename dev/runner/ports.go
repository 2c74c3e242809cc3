package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
)

const (
	ownerOnly = 0o600
	// mostPorts bounds what is remembered of Functions that are gone.
	mostPorts = 1000
)

// ports are the front ports of Functions, also of those that are gone, which may come back. They are kept in a file, so
// that a Function has its port after a restart too, whichever others came or went. Without a file they are forgotten.
type ports struct {
	file  string
	given map[string]int // by namespace/name
}

// readPorts reads what was kept. What cannot be read is assigned again.
func readPorts(file string) (*ports, error) {
	p := &ports{file: file, given: map[string]int{}}
	if file == "" {
		return p, nil
	}
	content, err := os.ReadFile(file) //nolint:gosec // of the state folder
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &p.given)
	}
	if err != nil {
		p.given = map[string]int{}
		return p, fmt.Errorf("read the ports of Functions: %w", err)
	}
	maps.DeleteFunc(p.given, func(_ string, port int) bool { return port < 1 || port > lastPort })
	return p, nil
}

// give notes the port of a Function. Those of Functions that are gone are forgotten when there are very many.
func (p *ports) give(fn types.NamespacedName, port int, all map[types.NamespacedName]*unit) error {
	name := fn.String()
	if p.given[name] == port {
		return nil
	}
	p.given[name] = port
	if len(p.given) > mostPorts {
		there := map[string]bool{name: true}
		for other := range all {
			there[other.String()] = true
		}
		maps.DeleteFunc(p.given, func(other string, _ int) bool { return !there[other] })
	}
	if p.file == "" {
		return nil
	}
	if err := p.write(); err != nil {
		return fmt.Errorf("remember the ports of Functions: %w", err)
	}
	return nil
}

// write replaces the file as a whole.
func (p *ports) write() error {
	content, err := json.Marshal(p.given)
	if err != nil {
		return err
	}
	draft := filepath.Join(filepath.Dir(p.file), "."+filepath.Base(p.file))
	if err := os.WriteFile(draft, content, ownerOnly); err != nil {
		return err
	}
	return os.Rename(draft, p.file)
}

// of is the port of a Function, if it ever had one.
func (p *ports) of(fn types.NamespacedName) (port int, had bool) {
	port, had = p.given[fn.String()]
	return port, had
}

// taken reports whether a port is given to a Function.
func (p *ports) taken(port int) bool {
	for _, other := range p.given {
		if other == port {
			return true
		}
	}
	return false
}
