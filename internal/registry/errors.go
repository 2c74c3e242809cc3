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
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/rouse-run/rouse/internal/dialguard"
)

// The classes of registry errors. Every error of this package wraps at most one of them.
var (
	// ErrForbidden means that the registry requires other credentials.
	ErrForbidden = errors.New("the registry refuses the credentials")
	// ErrUnavailable means that the registry does not respond, or reports that it is unavailable.
	ErrUnavailable = errors.New("the registry does not answer")
	// ErrUntrusted means that the registry's certificate is not signed by a trusted authority, or is not its own.
	ErrUntrusted = errors.New("the registry's certificate is not trusted")
	// ErrDenied means that the registry, or a host that it refers to, has an address to which no connection is made for
	// a tenant.
	ErrDenied = errors.New("no connection is made to the registry")
	// ErrFull means that the registry has no space, or that a quota is used up.
	ErrFull = errors.New("the registry is full")
)

// explained is an error with a fixed text: the response of a registry and the hosts that it refers to may come from a
// host that a tenant must not reach. The cause is available to errors.As, and is not printed.
type explained struct {
	meaning error // one of the above, or nil
	detail  string
	cause   error
}

// Error returns a text without any text of the registry.
func (e *explained) Error() string {
	if e.meaning == nil {
		return e.detail
	}
	return e.meaning.Error() + ": " + e.detail
}

// Unwrap returns the class and the cause.
func (e *explained) Unwrap() []error {
	if e.meaning == nil {
		return []error{e.cause}
	}
	return []error{e.meaning, e.cause}
}

// Explain classifies an error of a registry, and replaces its text.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*explained](err); ok {
		return err
	}
	return &explained{meaning: meaningOf(err), detail: detailOf(err), cause: err}
}

func meaningOf(err error) error {
	if answer := (&transport.Error{}); errors.As(err, &answer) {
		return meaningOfAnswer(answer)
	}
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return nil
	case errors.Is(err, dialguard.ErrDenied):
		return ErrDenied
	case isUntrusted(err):
		return ErrUntrusted
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errPlainHTTP),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return ErrUnavailable
	default:
		return nil
	}
}

func isUntrusted(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
	)
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname)
}

func meaningOfAnswer(answer *transport.Error) error {
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

// isFull recognizes the responses of known registries: the protocol has no code for it. Responses with 429 may mention
// quotas, but mean requests. We never upload a range: the CNCF registry rejects the range when the end of an accepted
// upload did not fit on its disk.
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

// isNotFound reports whether a response means that the object does not exist.
func isNotFound(err error) bool {
	answer := &transport.Error{}
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}

// detailOf describes the error in fixed words, with the status and the protocol codes of the response.
func detailOf(err error) string {
	if answer := (&transport.Error{}); errors.As(err, &answer) {
		return detailOfAnswer(answer)
	}
	switch {
	case errors.Is(err, dialguard.ErrDenied):
		return dialguard.ErrDenied.Error()
	case errors.Is(err, context.Canceled):
		return context.Canceled.Error()
	case isUntrusted(err):
		return detailOfCertificate(err)
	case errors.Is(err, http.ErrSchemeMismatch), errors.Is(err, errPlainHTTP):
		return errPlainHTTP.Error()
	case errors.Is(err, errTooLong):
		return errTooLong.Error()
	default:
		return detailOfConnection(err)
	}
}

func detailOfConnection(err error) string {
	var (
		number  syscall.Errno
		name    *net.DNSError
		network net.Error
	)
	switch {
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "the time is up"
	case errors.As(err, &name):
		return "its name, or that of a host which it leads to, is not known"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "its answer ends too early"
	default:
		return "its answer is not understood"
	}
}

func detailOfCertificate(err error) string {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
	)
	switch {
	case errors.As(err, &authority):
		return "certificate signed by unknown authority"
	case errors.As(err, &hostname):
		return "certificate of another name"
	default:
		return "certificate expired or not valid"
	}
}

// detailOfAnswer omits the text of the response and its URL, which may be another host's.
func detailOfAnswer(answer *transport.Error) string {
	text := strings.TrimSpace(fmt.Sprintf("status %d %s", answer.StatusCode, http.StatusText(answer.StatusCode)))
	var codes []string
	for _, diagnostic := range answer.Errors {
		if code := string(diagnostic.Code); slices.Contains(codesOfProtocol(), diagnostic.Code) && !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	if len(codes) == 0 {
		return text
	}
	return text + " (" + strings.Join(codes, ", ") + ")"
}

// codesOfProtocol returns the codes of the OCI distribution specification and of its predecessor.
func codesOfProtocol() []transport.ErrorCode {
	return []transport.ErrorCode{
		transport.BlobUnknownErrorCode, transport.BlobUploadInvalidErrorCode, transport.BlobUploadUnknownErrorCode,
		transport.DigestInvalidErrorCode, transport.ManifestBlobUnknownErrorCode, transport.ManifestInvalidErrorCode,
		transport.ManifestUnknownErrorCode, transport.ManifestUnverifiedErrorCode, transport.NameInvalidErrorCode,
		transport.NameUnknownErrorCode, transport.SizeInvalidErrorCode, transport.TagInvalidErrorCode, transport.UnauthorizedErrorCode,
		transport.DeniedErrorCode, transport.UnsupportedErrorCode, transport.TooManyRequestsErrorCode, transport.UnknownErrorCode,
		transport.UnavailableErrorCode,
	}
}
