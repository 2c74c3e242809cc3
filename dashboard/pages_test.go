package dashboard

import (
	"io/fs"
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// eachPage calls check with every committed page.
func eachPage(t *testing.T, check func(name, text string)) {
	t.Helper()
	found := 0
	require.NoError(t, fs.WalkDir(os.DirFS("pages"), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile("pages/" + name)
		found++
		check(name, string(text))
		return err
	}))
	require.Greater(t, found, 10)
}

// Names, logs and events come from tenants: pages make text nodes of them, and nothing makes markup or code of text.
func TestScriptsMakeNoMarkupAndNoCodeOfText(t *testing.T) {
	t.Parallel()
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML|srcdoc|` +
		`\beval\b|new Function\b|javascript:|setTimeout\(\s*["'\x60]`)
	eachPage(t, func(name, text string) { require.NotRegexp(t, forbidden, text, name) })
}

// The policy would refuse it anyway, and the page would not work.
func TestPagesHaveNoInlineCodeAndLoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	elsewhere := regexp.MustCompile(`(?:src|href|import|from|url\()\s*[=(]?\s*["']?(?:https?:)?//`)
	inline := regexp.MustCompile(`(?i)<script(?:\s[^>]*)?>\s*[^<\s]|<style|\son[a-z]+="|\sstyle="`)
	eachPage(t, func(name, text string) {
		require.NotRegexp(t, elsewhere, text, name)
		if path.Ext(name) == ".html" {
			require.NotRegexp(t, inline, text)
		}
	})
}

func TestScriptsImportFilesThatAreThere(t *testing.T) {
	t.Parallel()
	pages, err := readPages(false)
	require.NoError(t, err)
	eachPage(t, func(name, text string) {
		for _, found := range imports.FindAllStringSubmatch(text, -1) {
			require.Contains(t, pages.files, path.Join(path.Dir(name), found[1]), name)
		}
		require.LessOrEqual(t, strings.Count(text, "\n"), 400, "%s is too long to be read in one go", name)
	})
}

func TestTheWholeDashboardTakesLessThan150KiBCompressed(t *testing.T) {
	t.Parallel()
	pages, err := readPages(false)
	require.NoError(t, err)
	total := 0
	for _, file := range pages.files {
		total += len(file.gzip)
	}
	require.Less(t, total, 150<<10)
	t.Logf("%d files, %d bytes compressed", len(pages.files), total)
}

func TestFilesAreServedOnceAndViewsByTheIndex(t *testing.T) {
	t.Parallel()
	h := newHome().handler(t)
	compressed := header("Accept-Encoding", "br, gzip")
	got := ask(t, h, http.MethodGet, "/app.js", "", compressed)
	require.Equal(t, http.StatusOK, got.Code)
	require.Equal(t, "text/javascript; charset=utf-8", got.Header().Get("Content-Type"))
	require.Equal(t, "gzip", got.Header().Get("Content-Encoding"))
	tag := got.Header().Get("ETag")
	require.NotEmpty(t, tag)
	again := ask(t, h, http.MethodGet, "/app.js", "", compressed, header("If-None-Match", tag))
	require.Equal(t, http.StatusNotModified, again.Code)
	require.Zero(t, again.Body.Len())
	require.NotEqual(t, tag, ask(t, h, http.MethodGet, "/app.js", "").Header().Get("ETag"), "the other form has its own")

	root := ask(t, h, http.MethodGet, "/", "").Body.String()
	for _, view := range []string{"/functions", "/functions/shop/pricing", "/events", "/health", "/what/ever"} {
		require.Equal(t, root, ask(t, h, http.MethodGet, view, "").Body.String(), view)
	}
	for _, absent := range []string{"/absent.js", "/pages/app.js", "/handler.go", "/views/absent.js"} {
		require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodGet, absent, "").Code, absent)
	}
	require.Equal(t, http.StatusMethodNotAllowed, ask(t, h, http.MethodPost, "/", "x").Code)
	require.Zero(t, ask(t, h, http.MethodHead, "/", "").Body.Len())
}

// The scripts import each other by relative paths, which keep the version.
func TestFilesOfAVersionAreKeptByBrowsersAndNamedByTheIndexAtOnce(t *testing.T) {
	t.Parallel()
	h := newHome().handler(t)
	root := ask(t, h, http.MethodGet, "/", "")
	require.Equal(t, "no-cache", root.Header().Get("Cache-Control"))
	require.NotContains(t, root.Body.String(), `name="login"`)
	for _, found := range regexp.MustCompile(`(?:href|src)="(/[^"]+)"`).FindAllStringSubmatch(root.Body.String(), -1) {
		got := ask(t, h, http.MethodGet, found[1], "")
		require.Equal(t, http.StatusOK, got.Code, found[1])
		require.Contains(t, got.Header().Get("Cache-Control"), "immutable", found[1])
	}
	for _, name := range []string{"app.js", "dom.js", "views/overview.js", "style.css"} {
		require.Contains(t, root.Body.String(), `="/static/`+h.pages.version+`/`+name+`"`)
	}

	other := ask(t, h, http.MethodGet, "/static/0123456789abcdef/app.js", "")
	require.Equal(t, http.StatusOK, other.Code, "a page of another release goes on")
	require.Equal(t, "no-cache", other.Header().Get("Cache-Control"), "and keeps no file under a wrong name")
	require.Equal(t, "no-cache", ask(t, h, http.MethodGet, "/static/"+h.pages.version+"/functions", "").Header().Get("Cache-Control"))
}
