package toolchain

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// The tests of local mode run with the machine's programs, so these stand-ins only respond to the lookup.
func TestARuntimePrefersTheInterpreterOfItsOwnVersion(t *testing.T) {
	python, err := languages.Of("python312")
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		versioned string // script of python3.12
		want      string
	}{
		"it exists":                      {`echo '["/opt/python3.12", "3.12.4", "x"]'`, "/opt/python3.12"},
		"it does not exist":              {"", "/usr/bin/python3"},
		"it is a version manager's shim": {"echo not installed >&2; exit 127", "/usr/bin/python3"},
		"it has no pip":                  {`case "$*" in *"import pip"*) exit 1;; esac; echo '["/opt/python3.12", "3.12.4", "x"]'`, "/usr/bin/python3"},
		"it is another version":          {`echo '["/opt/python3.12", "3.14.1", "x"]'`, "/usr/bin/python3"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			program := func(name, text string) {
				require.NoError(t, envtest.Script(filepath.Join(dir, name), text))
			}
			program("python3", `echo '["/usr/bin/python3", "3.11.2", "x"]'`)
			if tc.versioned != "" {
				program("python3.12", tc.versioned)
			}
			t.Setenv("PATH", dir)
			found, err := find(t.Context(), python, "python312", "")
			require.NoError(t, err)
			require.Equal(t, tc.want, found.path)
		})
	}
}

func TestConfiguredInterpreterIsUsedForEveryRuntime(t *testing.T) {
	t.Parallel()
	python, err := languages.Of("python314")
	require.NoError(t, err)
	named := filepath.Join(t.TempDir(), "python")
	require.NoError(t, envtest.Script(named, `echo '["/named/python", "3.11.9", "x"]'`))
	found, err := find(t.Context(), python, "python314", named)
	require.NoError(t, err)
	require.Equal(t, "/named/python", found.path)
}

func newDebugged(t *testing.T) *fixture {
	t.Helper()
	w := newFixture(t)
	w.in.Debug = true
	first := loopback.Reserve(t)
	w.firstPort = func(*language.Language) int { return first }
	return w
}

func TestADebuggerOfNodeJSShowsTheUsersFile(t *testing.T) {
	t.Parallel()
	w := newDebugged(t)
	fn := inline("nodejs22", "exports.main = () => process.env.FUNC_TIMEOUT + ' ' +\n  new Error('here').stack")
	fn.Source = manifest.Position{File: filepath.Join(t.TempDir(), "price.yaml"), Line: 41}
	launch := w.launch(t, fn)
	stack := start(t, launch).get(t)
	require.Contains(t, stack, debugTimeout)
	require.Contains(t, stack, fn.Source.File+":42:")

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+launch.DebugAddress+"/json/version", http.NoBody)
	require.NoError(t, err)
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Contains(t, string(text), "Protocol-Version")
}

func TestPythonDebuggerRespondsWhileTheFunctionServes(t *testing.T) {
	t.Parallel()
	w := newDebugged(t)
	fn := inline("python312", "from __future__ import annotations\nimport bottle\ndef main(event, context):\n"+
		"    code = main.__code__\n    return f'\U0001f600 {code.co_filename}:{code.co_firstlineno}'\n")
	fn.Source = manifest.Position{File: filepath.Join(t.TempDir(), "price.yaml"), Line: 41}
	launch := w.launch(t, fn)
	require.Equal(t, "\U0001f600 "+fn.Source.File+":43", start(t, launch).get(t))

	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", launch.DebugAddress)
	require.NoError(t, err)
	defer func() { require.NoError(t, connection.Close()) }()
	body := `{"seq": 1, "type": "request", "command": "initialize", "arguments": {"adapterID": "test"}}`
	_, err = fmt.Fprintf(connection, "Content-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	reader := textproto.NewReader(bufio.NewReader(connection))
	for answer := ""; ; {
		header, err := reader.ReadMIMEHeader()
		require.NoError(t, err, "the last answer was %s", answer)
		length, err := strconv.Atoi(header.Get("Content-Length"))
		require.NoError(t, err)
		text := make([]byte, length)
		_, err = io.ReadFull(reader.R, text)
		require.NoError(t, err)
		if answer = string(text); strings.Contains(answer, `"initialize"`) && strings.Contains(answer, `"success": true`) {
			return
		}
	}
}

func TestADebuggedFunctionKeepsItsAddressUntilItChanges(t *testing.T) {
	t.Parallel()
	w := newDebugged(t)
	first := w.launch(t, inline("nodejs22", "exports.main = () => 1"))
	require.Equal(t, first, w.launch(t, inline("nodejs22", "exports.main = () => 1")))
	start(t, first)
	changed := w.launch(t, inline("nodejs22", "exports.main = () => 2"))
	require.NotEqual(t, first.DebugAddress, changed.DebugAddress, "the other still listens there")
	start(t, changed)
}
