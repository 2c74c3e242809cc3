package target

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/skew"
)

// Ask sends a request and returns the answer, whatever its status. The caller closes the body. Errors name no URL, which
// people did not write.
func (a Admin) Ask(
	ctx context.Context, client *http.Client, method, path string, query url.Values, body io.Reader,
) (*http.Response, error) {
	address := strings.TrimSuffix(a.URL, "/") + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+a.Token)
	request.Header.Set(skew.Header, skew.This(daemon.Version()).String())
	response, err := client.Do(request)
	return response, withoutURL(err)
}

// withoutURL removes what the user did not write.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
