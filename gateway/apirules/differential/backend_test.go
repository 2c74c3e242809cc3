package differential

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Backends are told by a header of the request how to answer.
const behaviour = "X-Backend"

// unseen are the headers of requests that need not be alike: both gateways write their own.
func unseen(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "x-envoy-") ||
		slices.Contains([]string{"x-request-id", "content-length"}, name)
}

// startBackend answers with what it was sent, and returns its port.
func startBackend(t *testing.T, name string) int {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r, name) }))
	t.Cleanup(server.Close)
	return portOf(t, server)
}

func portOf(t *testing.T, server *httptest.Server) int {
	t.Helper()
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(address.Port())
	require.NoError(t, err)
	return port
}

func answer(w http.ResponseWriter, r *http.Request, name string) {
	text := describe(r, name)
	kind, value, _ := strings.Cut(r.Header.Get(behaviour), "=")
	switch kind {
	case "cors":
		for _, header := range []string{"Origin", "Methods", "Headers", "Credentials"} {
			w.Header().Set("Access-Control-Allow-"+header, "backend")
		}
		w.Header().Set("Access-Control-Expose-Headers", "backend")
		w.Header().Set("Access-Control-Max-Age", "1")
		w.Header().Set("Vary", "Origin")
	case "status":
		status, _ := strconv.Atoi(value)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		return
	case "delay":
		pause(r, value)
	case "stream":
		for range 3 {
			_, _ = io.WriteString(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			pause(r, value)
		}
		return
	case "header":
		key, content, _ := strings.Cut(value, ":")
		w.Header().Add(key, content)
	case "abort":
		panic(http.ErrAbortHandler)
	case "upgrade":
		if r.Header.Get("Upgrade") != "" {
			upgrade(w, r, value)
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text)
}

func pause(r *http.Request, text string) {
	length, err := time.ParseDuration(text)
	if err != nil {
		return
	}
	select {
	case <-r.Context().Done():
	case <-time.After(length):
	}
}

// upgrade switches protocols and greets after a pause.
func upgrade(w http.ResponseWriter, r *http.Request, length string) {
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	greet := func(w *bufio.Writer, text string) {
		_, _ = w.WriteString(text)
		_ = w.Flush()
	}
	greet(buffer.Writer, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+r.Header.Get("Upgrade")+"\r\n\r\n")
	parsed, _ := time.ParseDuration(length)
	time.Sleep(parsed)
	greet(buffer.Writer, "hello")
}

// describe is a request as a backend sees it.
func describe(r *http.Request, name string) string {
	body, _ := io.ReadAll(r.Body)
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s %s\nhost: %s\nbody: %s\n", name, r.Method, r.RequestURI, r.Host, body)
	for _, header := range slices.Sorted(maps.Keys(r.Header)) {
		if unseen(header) {
			continue
		}
		value := strings.Join(r.Header[header], ",")
		if header == "X-Forwarded-For" { // Envoy has another address of this machine in place of loopback
			value = value[:strings.LastIndexByte(value, ',')+1] + "client"
		}
		fmt.Fprintf(&text, "%s: %s\n", strings.ToLower(header), value)
	}
	return text.String()
}

// startAuthorizer allows, denies or is slow as the header X-Wish says, and tells the backend what it was asked.
func startAuthorizer(t *testing.T, name string) int {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Authorizer", name)
		w.Header().Set("Set-Cookie", "authorizer="+name)
		w.Header().Set("X-User", "alice")
		w.Header().Set("X-Saw", strings.ReplaceAll(describe(r, name), "\n", "; "))
		kind, value, _ := strings.Cut(r.Header.Get("X-Wish"), "=")
		switch kind {
		case "status":
			status, _ := strconv.Atoi(value)
			w.Header().Set("Location", "https://login.example/")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "said "+name)
		case "delay":
			pause(r, value)
		case "abort":
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	return portOf(t, server)
}
