package runner

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rouse-run/rouse/dev/process"
)

// envRole makes the test binary a Function's server: "serve v1", "crash" and the like.
const envRole = "FUNCTION_TEST_ROLE"

func TestMain(m *testing.M) {
	process.Keep()
	if role := os.Getenv(envRole); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

func play(role string) int {
	word, rest, _ := strings.Cut(role, " ")
	switch word {
	case "serve":
		return serveVersion(rest)
	case "crash":
		_, _ = io.WriteString(os.Stderr, "handler did not load: TypeError: no price\n    at handler.js:3:7\n")
		return 1
	case "hang":
		select {}
	}
	return 2
}

// serveVersion answers with the version once it has read the whole request, and ends in order.
func serveVersion(version string) int {
	asked := make(chan os.Signal, 2)
	signal.Notify(asked, syscall.SIGTERM)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 3
	}
	var busy sync.Mutex
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy.Lock() // one thread for all, as in Node.js
		if r.URL.Path == "/loop" {
			select {}
		}
		busy.Unlock()
		if r.URL.Path == healthPath {
			return
		}
		if r.URL.Path == "/crash" {
			_, _ = fmt.Fprintln(os.Stderr, "RangeError: told to crash")
			os.Exit(7)
		}
		_, _ = fmt.Fprintln(os.Stdout, "got "+r.URL.Path)
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s", version, r.Host, r.URL.RequestURI())
	})}
	ready := os.NewFile(3, "ready")
	_, _ = fmt.Fprintf(ready, "%d\n", listener.Addr().(*net.TCPAddr).Port)
	_ = ready.Close()
	drained := make(chan struct{})
	go func() {
		<-asked
		_, _ = fmt.Fprintln(os.Stdout, "draining")
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = server.Shutdown(ctx)
		close(drained)
	}()
	_ = server.Serve(listener)
	<-drained
	return 0
}
