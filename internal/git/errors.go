package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Kind is what has to be repaired.
type Kind string

// Kinds of errors.
const (
	InvalidURL         Kind = "InvalidURL"
	Forbidden          Kind = "Forbidden" // the address is one that Functions must not make us connect to
	Authentication     Kind = "Authentication"
	Certificate        Kind = "Certificate"
	HostKey            Kind = "HostKey"
	Unreachable        Kind = "Unreachable"
	RepositoryNotFound Kind = "RepositoryNotFound"
	ReferenceNotFound  Kind = "ReferenceNotFound"
	DirectoryNotFound  Kind = "DirectoryNotFound"
	Unreadable         Kind = "Unreadable" // anything else
)

// Error says what is wrong and what to do about it.
type Error struct {
	Kind    Kind
	Message string
	err     error
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap is the cause, if there is one.
func (e *Error) Unwrap() error { return e.err }

// IsTransient tells whether the same request may succeed later although nobody changes anything.
func IsTransient(err error) bool {
	explained, ok := errors.AsType[*Error](err)
	return !ok || explained.Kind == Unreachable || explained.Kind == Unreadable
}

// IsAuthentication tells whether other credentials are needed.
func IsAuthentication(err error) bool {
	explained, ok := errors.AsType[*Error](err)
	return ok && explained.Kind == Authentication
}

// explain gives an error of a transport its kind.
func explain(err error, repository Repository) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known // without how the transport came to it
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
	case errors.As(err, &unknownKey):
		return HostKey, "the SSH host key of " + host + " is not the one in known_hosts. Correct known_hosts in the Secret of " +
			"spec.source.gitRepository.auth, or find out who answers there"
	case errors.As(err, &certificate), isCertificate(err):
		return Certificate, "the certificate of " + host + " cannot be verified: " + err.Error() + ". Add its CA to the installation's CA bundle"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return Certificate, host + " does not speak TLS on that port. Use http:// in spec.source.gitRepository.url, or the right port"
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed), isSSHAuthentication(err):
		return Authentication, authenticationMessage(repository)
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return RepositoryNotFound, "there is no repository " + repository.redacted() + ", or it is private and the credentials do not reach it. " +
			"Correct spec.source.gitRepository.url or auth"
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return ReferenceNotFound, "the repository " + repository.redacted() + " is empty. Push a commit to it"
	case errors.Is(err, pktline.ErrInvalidPktLen): // as with a web page
		return RepositoryNotFound, "what answers at " + repository.redacted() + " is no Git repository. Correct spec.source.gitRepository.url"
	case errors.As(err, &dns):
		return Unreachable, "the host " + host + " is not known (" + err.Error() + "). Correct spec.source.gitRepository.url, or the DNS"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &operation), isTimeout(err):
		return Unreachable, host + " does not answer: " + err.Error()
	default:
		return Unreadable, "the repository " + repository.redacted() + " cannot be read: " + err.Error()
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

// isSSHAuthentication reads the text: x/crypto/ssh has no error for it.
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
