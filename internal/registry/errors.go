package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// What a registry's error means. Every error of this package wraps at most one of them.
var (
	// ErrForbidden means that the registry wants other credentials.
	ErrForbidden = errors.New("the registry refuses the credentials")
	// ErrUnavailable means that the registry does not answer, or answers that it cannot work now.
	ErrUnavailable = errors.New("the registry does not answer")
	// ErrUntrusted means that the registry's certificate is signed by nobody who is trusted, or is not its own.
	ErrUntrusted = errors.New("the registry's certificate is not trusted")
	// ErrFull means that the registry has no space, or that a quota is used up.
	ErrFull = errors.New("the registry is full")
)

// Explain wraps err, which came from a registry, with the sentinel that fits.
func Explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	for _, known := range []error{ErrForbidden, ErrUnavailable, ErrUntrusted, ErrFull} {
		if errors.Is(err, known) {
			return err
		}
	}
	cause := causeOf(err)
	if cause == nil {
		return err
	}
	return fmt.Errorf("%w: %w", cause, briefly(err))
}

func causeOf(err error) error {
	if answer := (&transport.Error{}); errors.As(err, &answer) {
		return causeOfAnswer(answer)
	}
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		network      net.Error
	)
	switch {
	case errors.As(err, &verification), errors.As(err, &authority), errors.As(err, &hostname):
		return ErrUntrusted
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errPlainHTTP),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return ErrUnavailable
	default:
		return nil
	}
}

func causeOfAnswer(answer *transport.Error) error {
	switch {
	case isFull(answer):
		return ErrFull
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
		return ErrForbidden
	case answer.StatusCode >= http.StatusInternalServerError, answer.StatusCode == http.StatusTooManyRequests,
		answer.StatusCode == http.StatusRequestTimeout:
		return ErrUnavailable
	default:
		return nil
	}
}

// isFull knows what registries say: there is no code for it in the protocol. Those that answer 429 speak of
// quotas too, but mean requests. We never upload a range: the CNCF registry answers that one is wrong when the
// end of an upload, which it had accepted, did not fit on its disk.
func isFull(answer *transport.Error) bool {
	switch answer.StatusCode {
	case http.StatusInsufficientStorage, http.StatusRequestedRangeNotSatisfiable:
		return true
	case http.StatusTooManyRequests:
		return false
	}
	text := strings.ToLower(answer.Error())
	return strings.Contains(text, "no space left") || strings.Contains(text, "quota") ||
		strings.Contains(text, "exceed the configured upper limit")
}

// briefly leaves out the URL of a request that got no answer. Only the first of several tries counts.
func briefly(err error) error {
	if answer := (&transport.Error{}); errors.As(err, &answer) {
		return answer
	}
	if failed := (&url.Error{}); errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// isNotFound tells an answer that there is no such thing from all others.
func isNotFound(err error) bool {
	answer := &transport.Error{}
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}
