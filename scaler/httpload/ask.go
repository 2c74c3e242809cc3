package httpload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"

	"github.com/rouse-run/rouse/internal/activation"
)

var (
	errAddress   = errors.New("has no IP address")
	errDial      = errors.New("accepts no connection")
	errTimeout   = errors.New("has not answered in time")
	errBroken    = errors.New("has not answered with HTTP")
	errTooLong   = errors.New("has answered with more than a load")
	errNoLoad    = errors.New("has answered with something else than a load")
	errNoRequest = errors.New("cannot be asked")
)

// notAccepting is true for a pod that has not begun to listen, or does not exist.
func notAccepting(err error) bool { return errors.Is(err, errDial) }

// askInTurn asks one pod when its namespace has a free slot.
func (c *Pods) askInTurn(ctx context.Context, slots chan struct{}, address string) (activation.PodLoad, error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return activation.PodLoad{}, errTimeout
	}
	return c.ask(ctx, address)
}

func (c *Pods) ask(ctx context.Context, address string) (activation.PodLoad, error) {
	// An address that is no IP address would be looked up, and could be another one each time.
	if _, err := netip.ParseAddrPort(address); err != nil {
		return activation.PodLoad{}, errAddress
	}
	ctx, cancel := context.WithTimeout(ctx, c.answerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+activation.LoadPath, nil)
	if err != nil {
		return activation.PodLoad{}, errNoRequest
	}
	request.Header.Set("User-Agent", userAgent)
	response, err := c.http.Do(request)
	if err != nil {
		return activation.PodLoad{}, ownWords(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return activation.PodLoad{}, fmt.Errorf("has answered %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, mostBody+1))
	switch {
	case err != nil:
		return activation.PodLoad{}, ownWords(ctx, err)
	case len(body) > mostBody:
		return activation.PodLoad{}, errTooLong
	}
	load, err := activation.DecodePodLoad(body)
	if err != nil {
		return activation.PodLoad{}, errNoLoad
	}
	return load, nil
}

// ownWords replaces an error that may quote what was answered.
func ownWords(ctx context.Context, err error) error {
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		return errDial
	}
	if timeout, ok := errors.AsType[net.Error](err); ctx.Err() != nil || ok && timeout.Timeout() {
		return errTimeout
	}
	return errBroken
}
