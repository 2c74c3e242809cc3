package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/rouse-run/rouse/internal/dialguard"
)

// Kind classifies an error by its remedy.
type Kind string

// Kinds of errors.
const (
	InvalidURL         Kind = "InvalidURL"
	Forbidden          Kind = "Forbidden" // Functions must not connect to the address
	Authentication     Kind = "Authentication"
	Secret             Kind = "Secret" // its content is not valid
	Certificate        Kind = "Certificate"
	HostKey            Kind = "HostKey"
	Unreachable        Kind = "Unreachable"
	RepositoryNotFound Kind = "RepositoryNotFound"
	ReferenceNotFound  Kind = "ReferenceNotFound"
	DirectoryNotFound  Kind = "DirectoryNotFound"
	Unreadable         Kind = "Unreadable" // any other failure
)

// Error describes a failure and its remedy.
type Error struct {
	Kind    Kind
	Message string
	err     error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, if there is one.
func (e *Error) Unwrap() error { return e.err }

// IsTransient reports whether the same request may succeed later without any change.
func IsTransient(err error) bool {
	explained, ok := errors.AsType[*Error](err)
	return !ok || explained.Kind == Unreachable || explained.Kind == Unreadable
}

// IsAuthentication reports whether other credentials are needed.
func IsAuthentication(err error) bool {
	explained, ok := errors.AsType[*Error](err)
	return ok && explained.Kind == Authentication
}

// explain classifies an error of a transport.
func explain(err error, repository Repository) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known // drops the transport's context
	}
	kind, message := classify(err, repository)
	return &Error{Kind: kind, Message: shortened(message), err: err}
}

func classify(err error, repository Repository) (kind Kind, message string) {
	host := repository.host()
	var unknownKey *knownhosts.KeyError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var dns *net.DNSError
	var operation *net.OpError
	switch {
	case errors.Is(err, dialguard.ErrDenied):
		return Forbidden, "no connection is made to the host " + host + ": " + dialguard.ErrDenied.Error() + ". Correct spec.source.gitRepository.url"
	case errors.As(err, &unknownKey):
		return HostKey, "the SSH host key of " + host + " is not the one in known_hosts. Correct known_hosts in the Secret of " +
			"spec.source.gitRepository.auth, or verify the server"
	case errors.As(err, &certificate), isCertificate(err):
		return Certificate, "the certificate of " + host + " cannot be verified: it is expired, of another name, or by an authority that is not " +
			"trusted. Add its CA to the installation's CA bundle"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return Certificate, host + " does not speak TLS on that port. Use http:// in spec.source.gitRepository.url, or the right port"
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed), isSSHAuthentication(err):
		return Authentication, authenticationMessage(repository)
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return RepositoryNotFound, "there is no repository " + repository.redacted() + ", or it is private and the credentials do not reach it. " +
			"Correct spec.source.gitRepository.url or auth"
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return ReferenceNotFound, "the repository " + repository.redacted() + " is empty. Push a commit to it"
	case errors.Is(err, pktline.ErrInvalidPktLen): // for example, a web page
		return RepositoryNotFound, "the server at " + repository.redacted() + " is not a Git repository. Correct spec.source.gitRepository.url"
	case errors.As(err, &dns):
		return Unreachable, "the host " + host + ", or one that it redirects to, is not known. Correct spec.source.gitRepository.url, or the DNS"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &operation), isTimeout(err):
		return Unreachable, host + " does not answer: " + silence(err)
	default:
		return Unreadable, "the repository " + repository.redacted() + " cannot be read: " + reason(err)
	}
}

// silence describes how a host fails to respond.
func silence(err error) string {
	var number syscall.Errno
	switch {
	case errors.As(err, &number):
		return number.Error()
	case isTimeout(err), errors.Is(err, os.ErrDeadlineExceeded):
		return "the time is up"
	default:
		return "the connection broke"
	}
}

// reason returns why a repository cannot be read, without text of its server.
func reason(err error) string {
	var local *fs.PathError
	if unexpected, ok := errors.AsType[*plumbing.UnexpectedError](err); ok {
		err = unexpected.Err // it has no Unwrap method
	}
	var answer *githttp.Err
	var refusal *pktline.ErrorLine
	switch {
	case errors.As(err, &refusal):
		return "its server refuses the request"
	case errors.As(err, &answer):
		return strings.TrimSpace(fmt.Sprintf("it answers with status %d %s", answer.StatusCode(), http.StatusText(answer.StatusCode())))
	case errors.As(err, &local):
		return local.Error()
	case errors.Is(err, errCommand):
		return errCommand.Error()
	case errors.Is(err, context.Canceled):
		return context.Canceled.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "its answer ends too early"
	default:
		return "its answer is not understood"
	}
}

func authenticationMessage(repository Repository) string {
	message := "authentication failed for " + repository.redacted() + ". "
	if repository.Credentials.IsZero() {
		return message + "If the repository is private, name a Secret with credentials in spec.source.gitRepository.auth. Some hosts " +
			"say the same of one that does not exist"
	}
	return message + "Correct the credentials in the Secret of spec.source.gitRepository.auth"
}

// isSSHAuthentication inspects the text, because x/crypto/ssh has no error type for it.
func isSSHAuthentication(err error) bool {
	var partial *ssh.PassphraseMissingError
	return errors.As(err, &partial) || strings.Contains(err.Error(), "ssh: unable to authenticate")
}

func isCertificate(err error) bool {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &unknown) || errors.As(err, &name) || errors.As(err, &invalid)
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
