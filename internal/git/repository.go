package git

import (
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/rouse-run/rouse/internal/dialguard"
)

// Repository is a remote one and its credentials.
type Repository struct {
	// URL is https://, http://, ssh:// or user@host:path.
	URL         string
	Credentials Credentials
	// Owner is the namespace that asks. Owners take turns where they would be in each other's way.
	Owner string
}

// CheckURL reports whether a repository's URL can be read at all.
func CheckURL(url string) error {
	_, err := Repository{URL: url}.endpoint(dialguard.Guard{})
	return err
}

func (r Repository) endpoint(guard dialguard.Guard) (*transport.Endpoint, error) {
	refuse := func(why string) error {
		return &Error{Kind: InvalidURL, Message: "the URL " + r.redacted() + " " + why +
			". Use https://, http://, ssh:// or git@host:path in spec.source.gitRepository.url"}
	}
	endpoint, err := transport.NewEndpoint(strings.TrimSpace(r.URL))
	if err != nil {
		return nil, refuse("cannot be parsed")
	}
	switch endpoint.Protocol {
	case "http", "https", "ssh":
	default:
		return nil, refuse("is none that can be read")
	}
	if endpoint.Host == "" {
		return nil, refuse("names no host")
	}
	if err := guard.CheckLiteral(strings.Trim(endpoint.Host, "[]")); err != nil {
		return nil, explain(err, r)
	}
	return endpoint, nil
}

// host is for messages.
func (r Repository) host() string {
	if endpoint, err := transport.NewEndpoint(r.URL); err == nil && endpoint.Host != "" {
		return endpoint.Host
	}
	return r.redacted()
}

// redacted is the URL without a password.
func (r Repository) redacted() string {
	endpoint, err := transport.NewEndpoint(r.URL)
	if err != nil || endpoint.Password == "" {
		return r.URL
	}
	endpoint.Password = "xxxxx" // as url.Redacted does
	return endpoint.String()
}
