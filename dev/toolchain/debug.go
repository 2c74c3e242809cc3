package toolchain

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/runtimes/language"
)

const (
	// debugTimeout is a day in seconds: no call ends while its user debugs it.
	debugTimeout = "86400"
	portsToTry   = 100
)

// debugged has a Launch wait for a debugger on an address of its own.
func (l *launching) debugged(ctx context.Context, launch Launch, line []string) (Launch, error) {
	if l.interpreter.Local.Debugger.Args == nil {
		return Launch{}, fail(RuntimeUnavailable, "local mode starts no debugger for %s; leave --debug away", l.interpreter.Title)
	}
	address, err := l.t.debugAddress(l.key().String(), launch.Identity, l.t.firstPort(l.interpreter.Language))
	if err != nil {
		return Launch{}, err
	}
	launch.DebugAddress = address
	debugger, installed := l.interpreter.Local.Debugger, ""
	if debugger.Name != "" {
		if installed, err = l.debugger(ctx, debugger); err != nil {
			return Launch{}, err
		}
	}
	launch.Args = debugger.Args(address, installed, line)
	return launch, nil
}

// debugAddress keeps to its address for as long as the Launch stays the same. A changed one starts while the other still
// listens, and gets the next that is free.
func (t *Toolchain) debugAddress(fn, identity string, first int) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if address := t.debug[fn+"\x00"+identity]; address != "" {
		return address, nil
	}
	for port := first; port < first+portsToTry; port++ {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if t.taken(fn, address) {
			continue
		}
		listener, err := net.Listen("tcp", address) //nolint:noctx // of this machine, and closed at once
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			return "", fmt.Errorf("find a port for the debugger: %w", err)
		}
		t.debug[fn+"\x00"+identity] = address
		return address, nil
	}
	return "", fail(RuntimeUnavailable, "no port from %d to %d is free for the debugger; end other debuggers", first, first+portsToTry-1)
}

// taken reports whether another Function has the address.
func (t *Toolchain) taken(fn, address string) bool {
	for other, theirs := range t.debug {
		if theirs == address && !strings.HasPrefix(other, fn+"\x00") {
			return true
		}
	}
	return false
}

// debugger is the folder with the language's debugger, installed for the first who asks.
func (l *launching) debugger(ctx context.Context, d language.Debugger) (string, error) {
	i := l.interpreter
	key := i.version + "-" + keyOf(i.made, d.Script)
	installing := l.step("waiting for " + d.Name)
	begun := func() { installing.begin("installing " + d.Name + ", once for this machine") }
	dir, err := l.t.store.entry(ctx, d.Name, key, begun, func(dir, final string) error {
		if err := os.WriteFile(filepath.Join(dir, i.Packages.Manifest), []byte(d.Manifest), 0o600); err != nil {
			return fmt.Errorf("name the debugger: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, d.ScriptFile), []byte(d.Script), 0o600); err != nil {
			return fmt.Errorf("write the debugger's start: %w", err)
		}
		return l.t.install(ctx, wanted{interpreter: i, source: dir, manifest: "what local mode debugs with"}, dir, final)
	})
	installing.end(err)
	return dir, err
}

// mapSource has debuggers and stack traces show the file in which the user wrote the inline source, line by line.
func mapSource(file string, at manifest.Position, mapped func(source, origin string, line int) (string, error)) error {
	if at.File == "" || at.Line == 0 {
		return nil
	}
	origin, err := filepath.Abs(at.File)
	if err != nil {
		return fmt.Errorf("find the source of a Function: %w", err)
	}
	source, err := os.ReadFile(file) //nolint:gosec // the copy of the Function's source
	if err != nil {
		return fmt.Errorf("read the source of a Function: %w", err)
	}
	text, err := mapped(string(source), origin, at.Line)
	if err != nil {
		return fmt.Errorf("map the source of a Function: %w", err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("map the source of a Function: %w", err)
	}
	return nil
}
