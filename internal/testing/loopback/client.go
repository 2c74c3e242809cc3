package loopback

import "net/http"

// Default is http.DefaultClient with a transport of its own.
var Default = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()} //nolint:forbidigo // it is the one that replaces it
