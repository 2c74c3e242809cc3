package toolchain

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/runtimes/language"
)

const greets = `package handler

import (
	"io"
	"net/http"
)

func Handle(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }
`

func TestASourceIsCompiledOnceForAllThatItIsMadeOf(t *testing.T) {
	t.Parallel()
	source := greets + "// " + t.TempDir() + "\n" // no other run of this test has compiled it
	w := newFixture(t)
	first := w.launch(t, inline("go126", source))
	require.Contains(t, w.progress(), "shop/price: compiling the source\n")
	require.Equal(t, "hello", start(t, first).get(t))

	again := newFixture(t)
	require.Equal(t, first.Path, again.launch(t, inline("go126", source)).Path)
	require.NotContains(t, again.progress(), "compiling")

	other := again.launch(t, inline("go126", source+"// changed\n"))
	require.NotEqual(t, first.Path, other.Path)
	require.NotEqual(t, first.Identity, other.Identity, "a replica has to be replaced")
}

func TestASourceThatDoesNotCompileNamesTheLineAndTheFunction(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"package handler\n\nfunc Handle(":                               "shop/price.yaml:3: handler.go:3:13: expected",
		"package handler\n\nfunc Main() {}\n":                           "shop/price.yaml:3: there is no func Handle in handler.go",
		greets + "\nvar _ = missing\n":                                  "handler.go:10:9: undefined: missing",
		"package handler\n\nfunc Handle(a, b int) {}\n":                 "handler.go: Handle is a func(a int, b int); write one of",
		"package handler\n\nimport _ \"example.com/x\"\n" + greets[16:]: "no module in spec.source.inline.dependencies provides example.com/x",
	} {
		failed := newFixture(t).refused(t, inline("go126", source))
		require.Equal(t, Reason(language.SourceInvalid), failed.Reason)
		require.Contains(t, failed.Message, want)
	}
}

func TestAFunctionOfALanguageWithoutADebuggerSaysSo(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.in.Debug = true
	require.Contains(t, w.refused(t, inline("go126", greets)).Message, "local mode starts no debugger for Go; leave --debug away")
}
