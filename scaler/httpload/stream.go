package httpload

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
)

const (
	// silentFor is three times as long as a gateway pauses between two lines at most.
	silentFor    = 3 * time.Second
	mostLine     = 4 << 20
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

var (
	errSilent = errors.New("it is silent")
	errEnded  = errors.New("it has ended the stream")
)

// hold keeps a stream to one gateway until that is not listed any more, or ctx ends.
func (g *Gateways) hold(ctx context.Context, to *gateway) {
	backoff := g.backoff
	for {
		err := g.stream(ctx, to)
		begun, listed := g.ended(to)
		if !listed || ctx.Err() != nil {
			return
		}
		if begun {
			g.log.Info("the load stream of a gateway has ended", "gateway", to.address, "reason", err.Error())
			backoff = g.backoff
		} else {
			g.log.V(1).Info("cannot read the load of a gateway", "gateway", to.address, "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-to.turnedReady:
			backoff = g.backoff
		case <-time.After(backoff.Step()):
		}
	}
}

// ended forgets what the gateway holds, and the gateway itself when it is not listed any more.
func (g *Gateways) ended(from *gateway) (begun, listed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	begun, from.live = from.live, false
	if !from.listed {
		delete(g.gateways, from.address)
	}
	return begun, from.listed
}

// stream reads one stream until it ends, and says why it did.
func (g *Gateways) stream(ctx context.Context, from *gateway) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(g.silence, func() { cancel(errSilent) })
	defer silence.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+from.address+activation.GatewayLoadPath, nil)
	if err != nil {
		return fmt.Errorf("its address is wrong: %w", err)
	}
	response, err := g.http.Do(request)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it has answered %d", response.StatusCode)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, mostLine)
	for begun := false; lines.Scan(); begun = true {
		silence.Reset(g.silence)
		line, err := activation.DecodeGatewayLoads(lines.Bytes())
		if err != nil {
			return err
		}
		notify, err := g.apply(from, line, begun)
		if err != nil {
			return err
		}
		for _, each := range notify {
			each.notify()
		}
	}
	return cmp.Or(context.Cause(ctx), lines.Err(), errEnded)
}

// apply records a line, and returns who wants to know of it.
func (g *Gateways) apply(from *gateway, line loads, begun bool) ([]*watcher, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var called []types.NamespacedName
	var err error
	if begun {
		called, err = from.ledger.change(line)
	} else {
		called, err = from.ledger.begin(line)
	}
	if err != nil {
		return nil, err
	}
	from.live = true
	return g.watchersOf(called), nil
}
