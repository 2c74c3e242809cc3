package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Serve answers requests on a port, 0 for any, until ctx ends.
func Serve(ctx context.Context, port int, ready func(string), handler http.Handler) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ready("http://" + listener.Addr().String())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// GetJSON requests a URL of a role and decodes the answer, unless answer is nil.
func GetJSON(ctx context.Context, url string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask %s: %s", url, response.Status)
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	return nil
}

// WriteJSON answers a request of GetJSON.
func WriteJSON(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // it fails when the client is gone
}
