package registry

import (
	"context"
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

// detailOf says what happened in fixed words, and with the status and the codes of the protocol that were answered.
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

// detailOfAnswer leaves out the text of the answer, and what it was the answer to: it may be another host's.
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

// codesOfProtocol are those of the OCI distribution specification, and what its older form had beside them.
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
