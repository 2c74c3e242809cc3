package envtest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/rest"
)

// lagVariable names the environment variable with the longest delay of a watch's events, such as 1s. Empty: none.
const lagVariable = "ROUSE_WATCH_LAG"

// lag delays the events of all watches through config at random, each watch on its own, as a busy API server does: a
// test then meets the stale caches that are rare on an idle machine.
func lag(config *rest.Config) error {
	text := os.Getenv(lagVariable)
	if text == "" {
		return nil
	}
	longest, err := time.ParseDuration(text)
	if err != nil || longest <= 0 {
		return fmt.Errorf("%s=%q: must be a positive duration, such as 1s", lagVariable, text)
	}
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return &lagging{inner: inner, longest: longest} })
	return nil
}

type lagging struct {
	inner   http.RoundTripper
	longest time.Duration
}

// RoundTrip implements http.RoundTripper.
func (l *lagging) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.inner.RoundTrip(request)
	if err != nil || request.URL.Query().Get("watch") == "" {
		return response, err
	}
	response.Body = &laggingBody{ReadCloser: response.Body, longest: l.longest}
	return response, nil
}

type laggingBody struct {
	io.ReadCloser
	longest time.Duration
}

func (l *laggingBody) Read(into []byte) (int, error) {
	n, err := l.ReadCloser.Read(into)
	time.Sleep(rand.N(l.longest)) //nolint:gosec // need not be secret
	return n, err
}
