package toolchain

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/dev/manifest"
)

const (
	// debugTimeout is a day in seconds: no call ends while its user debugs it.
	debugTimeout = "86400"
	portsToTry   = 100
)

//go:embed debug.py
var debugScript []byte

// debugged has a Launch wait for a debugger on an address of its own.
func (l *launching) debugged(ctx context.Context, launch Launch, line []string) (Launch, error) {
	address, err := l.t.debugAddress(l.key().String(), launch.Identity, l.t.firstPort(l.interpreter.python))
	if err != nil {
		return Launch{}, err
	}
	launch.DebugAddress = address
	if !l.interpreter.python {
		launch.Args = append([]string{"--inspect=" + address, "--enable-source-maps"}, line...)
		return launch, nil
	}
	debugger, err := l.debugpy(ctx)
	if err != nil {
		return Launch{}, err
	}
	flags, main := line[:len(line)-1], line[len(line)-1]
	launch.Args = append(append([]string{"-X", "frozen_modules=off"}, flags...), filepath.Join(debugger, "debug.py"), address, main)
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

// firstPort is the one that editors try first.
func firstPort(python bool) int {
	if python {
		return 5678
	}
	return 9229
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

// debugpy is the folder with Python's debugger, installed for the first who asks.
func (l *launching) debugpy(ctx context.Context) (string, error) {
	i := l.interpreter
	key := i.version + "-" + keyOf(i.made, string(debugScript))
	installing := l.step("waiting for debugpy")
	dir, err := l.t.store.entry(ctx, "debugpy", key, func() { installing.begin("installing debugpy, once for this machine") }, func(dir, final string) error {
		if err := os.WriteFile(filepath.Join(dir, "requirements.txt"), []byte("debugpy>=1.8,<2\n"), 0o600); err != nil {
			return fmt.Errorf("name the debugger: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "debug.py"), debugScript, 0o600); err != nil {
			return fmt.Errorf("write the debugger's start: %w", err)
		}
		err := l.t.install(ctx, wanted{interpreter: i, source: dir, manifest: "what local mode debugs with"}, dir, final)
		return err
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

// mapNode adds a source map.
func mapNode(source, origin string, line int) (string, error) {
	text, err := json.Marshal(map[string]any{
		"version": 3, "sources": []string{"file://" + origin}, "names": []string{},
		// The first line by its number, and each other one after the line before.
		"mappings": "AA" + variableLength(line-1) + "A" + strings.Repeat(";AACA", strings.Count(source, "\n")),
	})
	return fmt.Sprintf("%s\n//# sourceMappingURL=data:application/json;base64,%s\n", source, base64.StdEncoding.EncodeToString(text)), err
}

// mapPython compiles the source under the name of its file, and on its lines. A string of JSON is one of Python too.
func mapPython(source, origin string, line int) (string, error) {
	text, err := json.Marshal(strings.Repeat("\n", line-1) + source)
	if err != nil {
		return "", err
	}
	name, err := json.Marshal(origin)
	return fmt.Sprintf("exec(compile(%s, %s, \"exec\"))\n", text, name), err
}

// variableLength is how source maps write a number that is not negative.
func variableLength(number int) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var text strings.Builder
	for rest := number << 1; ; {
		digit := rest & 31
		if rest >>= 5; rest > 0 {
			digit |= 32
		}
		text.WriteByte(digits[digit])
		if rest == 0 {
			return text.String()
		}
	}
}
