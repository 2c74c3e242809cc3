package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/skew"
)

const maxFailure = 64 << 10

// errForbidden means that the user is known, and lacks the right.
var errForbidden = errors.New("the bridge refuses that")

// Client asks one bridge.
type Client struct {
	admin Admin
	http  *http.Client
}

// New makes a client.
func New(admin Admin) *Client {
	return &Client{admin: admin, http: &http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for nobody else
	}}
}

// ask sends a request and returns the answer, whatever its status. The caller closes the body.
func (c *Client) ask(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return nil, fmt.Errorf("ask the bridge: %w", err)
		}
	}
	response, err := c.admin.Ask(ctx, c.http, method, path, query, &content)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, exit.Errorf(exit.Unreachable, "the admin API of the bridge does not answer: %w", err)
	}
	return response, nil
}

// read asks for one JSON object.
func (c *Client) read(ctx context.Context, path string, query url.Values, into any) error {
	response, err := c.ask(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return failureOf(response)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("read the bridge's answer: %w", err)
	}
	return nil
}

// failureOf makes an error of an answer.
func failureOf(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxFailure)) // the status is enough without it
	return judge(response, text)
}

// judge makes an error of an answer. What a bridge of another release cannot answer names the version that is needed.
func judge(response *http.Response, text []byte) error {
	status := response.StatusCode
	var failure struct {
		Error string `json:"error"`
	}
	message := strings.TrimSpace(string(text))
	if json.Unmarshal(text, &failure) == nil && failure.Error != "" {
		message = failure.Error
	}
	if err := unfit(skew.This(daemon.Version()), response, message); err != nil {
		return exit.Errorf(exit.Unreachable, "%w (it said: %s)", err, message)
	}
	switch status {
	case http.StatusUnauthorized:
		return exit.Errorf(exit.Unreachable, "the bridge does not accept your login: %s", message)
	case http.StatusForbidden:
		return exit.Errorf(exit.Unreachable, "%w: %s", errForbidden, message)
	case http.StatusNotFound, http.StatusConflict: // a Subscription that is not there for a redrive
		return exit.Errorf(exit.NotFound, "%s", message)
	case http.StatusServiceUnavailable:
		return exit.Errorf(exit.Failed, "the bridge cannot do that now: %s", message)
	}
	return exit.Errorf(exit.Refused, "the bridge refuses: %s", message)
}

// unfit explains a refusal by what bridge and client say of themselves. Statuses of a request that was understood explain nothing.
func unfit(client skew.Side, response *http.Response, message string) error {
	server, told := skew.Parse(response.Header.Get(skew.Header))
	if !told {
		return nil
	}
	if err := skew.Serves(server, client); err != nil {
		return err
	}
	switch {
	case response.StatusCode == http.StatusBadRequest, response.StatusCode == http.StatusMethodNotAllowed,
		response.StatusCode == http.StatusNotFound && message == skew.NoSuchPath:
		return skew.Knows(server, client)
	}
	return nil
}
