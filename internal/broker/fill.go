package broker

import (
	"context"
	"fmt"
)

// Fill is how much of what a stream may hold it holds, from 0 to 1: of its bytes or of its messages, whichever is
// fuller. A stream without such bounds is never full. It is one request.
func (c *Conn) Fill(ctx context.Context, stream string) (float64, error) {
	if !c.Connected() {
		return 0, fmt.Errorf("ask how full stream %q is: %w", stream, ErrNotConnected)
	}
	handle, err := c.js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("ask how full stream %q is: %w", stream, mapError(err))
	}
	info := handle.CachedInfo()
	return max(share(info.State.Bytes, info.Config.MaxBytes), share(info.State.Msgs, info.Config.MaxMsgs)), nil
}

func share(used uint64, bound int64) float64 {
	if bound <= 0 {
		return 0
	}
	return float64(used) / float64(bound)
}
