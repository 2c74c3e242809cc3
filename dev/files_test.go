package dev

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// answer returns the body of a Function's answer, and why an older version gave it.
func (w *fixture) answer(t *testing.T, name string) (body, older string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.functions(t)[name].URL, http.NoBody)
	require.NoError(t, err)
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text), response.Header.Get("Rouse-Older-Version")
}

func TestAChangedFileOfAFolderTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	folder := filepath.Join(directory, "greeter")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "lib"), 0o700))
	write(t, folder, "function.yaml", strings.Replace(greeter("// the files"), "spec:\n", "spec:\n  annotations: {rouse.run/files: greeter-files}\n", 1))
	write(t, folder, "handler.ts", "import { text } from './lib/text';\nexport const main = (): string => text();\n")
	write(t, folder, "lib/text.ts", "export const text = (): string => 'one';\n")
	w := run(t, directory)
	await(t, "the Function's port", func() bool { return w.functions(t)["greeter"].URL != "" })
	answers := func(want string) {
		t.Helper()
		await(t, "it answers "+want, func() bool { body, _ := w.answer(t, "greeter"); return body == want })
	}
	answers("one")

	write(t, folder, "lib/text.ts", "export const text = (): string => 'two';\n")
	answers("two")

	write(t, folder, "lib/text.ts", "enum Text { Three = 'three' }\n\nthrow new Error('no ' + Text.Three);\nexport const text = () => '';\n")
	await(t, "an older version answers", func() bool {
		body, older := w.answer(t, "greeter")
		return body == "two" && strings.Contains(older, "greeter/lib/text.ts:3: Error: no three")
	})

	write(t, folder, "lib/text.ts", "export const text = (): string => ;\n")
	await(t, "what does not compile is reported", func() bool {
		body, older := w.answer(t, "greeter")
		return body == "two" && strings.Contains(older, `greeter/lib/text.ts:1:35: Unexpected ";"`)
	})

	write(t, folder, "lib/text.ts", "export const text = (): string => 'three';\n")
	answers("three")

	require.NoError(t, os.Symlink("/etc", filepath.Join(folder, "etc")))
	await(t, "the link is refused", func() bool { return strings.Contains(w.out.String(), `link "etc" leads out of the folder`) })
	answers("three")
}
