package forward

import (
	"errors"
	"io"
	"net/http"

	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// headMemory is what the long heads of all answers may take that are under way.
const headMemory = 32 << 20

// Heads bounds the heads of the answers of backends, by namespace.
type Heads struct{ memory *fair.Pool }

// NewHeads is for all answers of a process.
func NewHeads() *Heads { return &Heads{fair.NewPool(fair.Limits{Total: headMemory})} }

// Open begins the account of a request to a backend of a namespace.
func (h *Heads) Open(account *httplimit.HeadAccount, namespace string) {
	account.Open(h.memory, namespace)
}

// RoundTrip sends a request with the context of an account, whose answer has no more of a head than it may. The transport counts.
func RoundTrip(transport http.RoundTripper, r *http.Request, account *httplimit.HeadAccount) (*http.Response, error) {
	answer, err := transport.RoundTrip(r)
	if refused := account.Refused(); err != nil && refused != nil {
		return nil, refused
	} else if err != nil {
		return nil, err
	}
	if err := httplimit.CheckHead(answer.Header); err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	return answer, nil
}

// RefusedHead is why the head of an answer was refused; empty where that is not why a request failed.
func RefusedHead(err error) string {
	if refused, ok := errors.AsType[httplimit.HeadError](err); ok {
		return refused.Error()
	}
	return ""
}

// CleanTrailer takes away headers of Rouse's own from the trailer of an answer, which is known when its body has ended.
func CleanTrailer(answer *http.Response) {
	if len(answer.TransferEncoding) > 0 { // an answer without chunks has none
		RemoveOwn(answer.Trailer)
		answer.Body = &trailed{answer.Body, answer}
	}
}

type trailed struct {
	io.ReadCloser
	of *http.Response
}

// Read implements io.Reader.
func (t *trailed) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		RemoveOwn(t.of.Trailer)
		if many := httplimit.CheckHead(t.of.Trailer); many != nil {
			return n, many
		}
	}
	return n, err
}
