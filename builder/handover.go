package builder

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/runtimes/language"
)

const (
	// handoverTimeout bounds the wait for the other container: the kubelet starts both in turn.
	handoverTimeout = 2 * time.Minute
	// handoverRetry is the interval at which Install dials Push.
	handoverRetry = 20 * time.Millisecond
	// handoverEnd follows the layer. Without it the layer is incomplete.
	handoverEnd = "the layer is whole\n"
)

// errNotHandedOver is returned when Install ended without a layer, and reported the reason.
var errNotHandedOver = errors.New("there is no layer to push")

// errNotWanted is returned when Push ended before it had the layer, and reports the reason.
var errNotWanted = errors.New("the container that pushes the image has ended")

// handover is Install's end of the connection to Push.
type handover struct{ conn *net.UnixConn }

// dialHandover waits until Push listens.
func dialHandover(ctx context.Context, dir string) (*handover, error) {
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	address := filepath.Join(dir, buildplan.HandoverSocket)
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", address)
		if err == nil {
			return &handover{conn: conn.(*net.UnixConn)}, nil //nolint:forcetypeassert // what "unix" gives
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("reach the container that pushes: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fail(language.Interrupted, "the container that pushes the image did not start; it is tried again")
		case <-time.After(handoverRetry):
		}
	}
}

// whileWanted returns a context that ends with Push, which never sends anything, and closes the connection at its end.
func (h *handover) whileWanted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = h.conn.Read(make([]byte, 1))
		cancel()
	}()
	return ctx, cancel
}

// send sends the layer. That Push has ended may be seen here before the context of whileWanted ends.
func (h *handover) send(place string, entries []entry) error {
	err := h.sendWhole(place, entries)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return errNotWanted
	}
	return err
}

func (h *handover) sendWhole(place string, entries []entry) error {
	buffered := bufio.NewWriterSize(h.conn, 256<<10)
	if err := writeTar(buffered, place, entries); err != nil {
		return err
	}
	_, err := buffered.WriteString(handoverEnd)
	if err := errors.Join(err, buffered.Flush(), h.conn.CloseWrite()); err != nil {
		return fmt.Errorf("send the layer: %w", err)
	}
	return nil
}

func (h *handover) close() { _ = h.conn.Close() }

// receiver is Push's end of the connection.
type receiver struct{ listener *net.UnixListener }

func listenHandover(dir string) (*receiver, error) {
	address := filepath.Join(dir, buildplan.HandoverSocket)
	if err := os.Remove(address); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("clear the handover: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for the layer: %w", err)
	}
	return &receiver{listener: listener}, nil
}

// accept waits for Install. The first connection is Install's: no other code runs there before.
func (r *receiver) accept(ctx context.Context) (*net.UnixConn, error) {
	if err := r.listener.SetDeadline(time.Now().Add(handoverTimeout)); err != nil {
		return nil, fmt.Errorf("wait for the layer: %w", err)
	}
	stop := context.AfterFunc(ctx, r.close)
	defer stop()
	conn, err := r.listener.AcceptUnix()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fail(language.Interrupted, "the container that installs the dependencies did not start; it is tried again")
	}
	return conn, nil
}

// receive calls read with the connection to Install, until ctx ends.
func receive(ctx context.Context, from net.Conn, read func(io.Reader) (layer, error)) (layer, error) {
	stop := context.AfterFunc(ctx, func() { _ = from.Close() })
	defer stop()
	received, err := read(bufio.NewReaderSize(from, 256<<10))
	if ctx.Err() != nil {
		return layer{}, ctx.Err()
	}
	return received, err
}

func (r *receiver) close() { _ = r.listener.Close() }
