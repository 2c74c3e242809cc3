package view

import (
	"context"
	"io"
)

// Plain writes a line for each thing that happens, until the context ends.
func Plain(ctx context.Context, source Source, out io.Writer) error {
	source.FollowState(ctx, func(state State) {
		_, _ = io.WriteString(out, "publish at "+state.Publish+"\n")
	})
	return nil
}
