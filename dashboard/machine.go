package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/rouse-run/rouse/internal/daemon"
)

// Owner is the access of a home on its user's machine: whoever has the token is the user.
type Owner struct {
	Token   string
	Changes bool
	// Namespace is the one that is shown; empty for all.
	Namespace string
}

// Authenticate implements Access.
func (o Owner) Authenticate(r *http.Request) (User, error) {
	if !daemon.HasBearer(r, o.Token) {
		return User{}, ErrUnauthenticated
	}
	return User{Name: "local", Changes: o.Changes, Namespace: o.Namespace}, nil
}

// OnThisMachine returns the handler for a port of loopback, until ctx ends. It answers for loopback hosts alone: a web page whose name
// resolves to this machine (DNS rebinding) sends that name.
func (h *Handler) OnThisMachine(ctx context.Context) http.Handler {
	serve := daemon.CancelHandler(ctx, h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !daemon.OnLoopback(r) {
			protect(w.Header())
			fail(w, http.StatusMisdirectedRequest, "this dashboard answers on the loopback address of its machine alone")
			return
		}
		serve.ServeHTTP(w, r)
	})
}

const (
	// openerTimeout bounds how long the program that opens a browser may take.
	openerTimeout = 20 * time.Second
	// pageFile is a page that leads to the dashboard.
	pageFile  = "dashboard.html"
	ownerOnly = 0o600
)

// Open opens an address in a browser, by a program or that of the desktop. The program opens a file of the folder, which only its owner can
// read: everyone on this machine can read the arguments of a program, and a token among them.
func Open(ctx context.Context, program, folder, address string) error {
	if program == "" {
		program = "xdg-open"
		if runtime.GOOS == "darwin" {
			program = "open"
		}
	}
	file := filepath.Join(folder, pageFile)
	text := `<!doctype html><meta charset="utf-8"><title>Rouse</title><meta http-equiv="refresh" content="0; url=` + address + `">`
	if err := os.WriteFile(file, []byte(text), ownerOnly); err != nil {
		return fmt.Errorf("write the page for the browser: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, openerTimeout)
	defer cancel()
	if err := exec.CommandContext(ctx, program, file).Run(); err != nil { //nolint:gosec // a program of the desktop, with our own file
		return fmt.Errorf("open a browser by %s: %w; open the address of the dashboard yourself", program, err)
	}
	return nil
}

// maxCalled bounds what is shown of the answer of a Function.
const maxCalled = 64 << 10

// At calls a Function at the URL of its server. Redirects are not followed.
func (c Call) At(ctx context.Context, url string) (CallAnswer, error) {
	request, err := http.NewRequestWithContext(ctx, c.Method, strings.TrimSuffix(url, "/")+c.Path, strings.NewReader(c.Body))
	if err != nil {
		return CallAnswer{}, fmt.Errorf("call the Function: %w", err)
	}
	if c.Body != "" {
		request.Header.Set("Content-Type", cmp.Or(c.ContentType, "application/json"))
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	began := time.Now()
	response, err := client.Do(request)
	if err != nil {
		return CallAnswer{}, fmt.Errorf("call the Function: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxCalled+1))
	if err != nil {
		return CallAnswer{}, fmt.Errorf("read the answer of the Function: %w", err)
	}
	return CallAnswer{
		Status: response.StatusCode, ContentType: response.Header.Get("Content-Type"), TookMS: time.Since(began).Milliseconds(),
		Body: strings.ToValidUTF8(string(text[:min(len(text), maxCalled)]), "\uFFFD"), Cut: len(text) > maxCalled,
	}, nil
}
