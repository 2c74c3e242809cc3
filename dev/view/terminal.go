package view

import (
	"context"
	"io"
)

// Terminal shows the source live until the context ends or the user quits, which are both no error. Where
// out is no terminal that can show it, it is Plain.
func Terminal(ctx context.Context, source Source, _ io.Reader, out io.Writer) error {
	return Plain(ctx, source, out)
}
