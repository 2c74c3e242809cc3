package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// publish is the honest publisher: it sends an event of 1 KiB at a time on a connection of its own, and tries again a
// little later where the bridge asks for it.
func publish(ctx context.Context, where string) (stored, refused int) {
	const pause, soon, tries = 20 * time.Millisecond, 200 * time.Millisecond, 3
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ; ctx.Err() == nil; time.Sleep(pause) {
		ok := false
		for range tries {
			if ok = publishOne(ctx, client, where, stored+refused); ok || ctx.Err() != nil {
				break
			}
			time.Sleep(soon)
		}
		switch {
		case ok:
			stored++
		case ctx.Err() == nil:
			refused++
		}
	}
	return stored, refused
}

func publishOne(ctx context.Context, client *http.Client, where string, id int) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, where+"/publish", strings.NewReader(strings.Repeat("x", 1<<10)))
	if err != nil {
		return false
	}
	for name, value := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": fmt.Sprintf("honest-%d", id), "Ce-Source": source, "Ce-Type": "quiet.v1", "Content-Type": "text/plain",
		"Authorization": "Bearer shop/checkout",
	} {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusNoContent
}
