package registryproxy

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/registry"
)

// Account is the authenticated caller of a request.
type Account struct {
	// Name is the name of a tenant's account, or of the controller's.
	Name string
	// Admin is true for the controller.
	Admin bool
}

// Access is the decision on a request.
type Access struct {
	// Allowed requests are forwarded to the registry.
	Allowed bool
	// Kind is the kind of the resource: manifests, blobs, uploads, tags or referrers; empty for the rest.
	Kind string
	// Digest is the required digest of the request's body; empty for any.
	Digest string
	// Query is the query of the request, without a mount that the account may not use: the layer is uploaded then.
	Query string
}

// target is the resource in a path.
type target struct {
	repository string
	kind       string // manifests, blobs, uploads, tags or referrers
	reference  string
}

// Paths of the distribution specification 1.1, and no others. A repository of a tenant has one level; copies of bases
// have several, all below rouse-base, so that no path can be read as another repository's.
var targetForm = regexp.MustCompile(
	`^/v2/([a-z0-9][a-z0-9._-]*(?:/[a-z0-9][a-z0-9._-]*)*)/(?:(manifests)/([A-Za-z0-9_][A-Za-z0-9._:-]*)|(blobs)/(sha(?:256|512):[0-9a-f]+)|` +
		`blobs/(uploads)/([A-Za-z0-9_=-]*)|(tags)/(list)|(referrers)/(sha(?:256|512):[0-9a-f]+))$`)

// Decide authorizes a request of an account.
func Decide(account Account, method string, u *url.URL) Access {
	if account.Admin {
		return Access{Allowed: true, Query: u.RawQuery}
	}
	if u.EscapedPath() != u.Path {
		return Access{} // no valid path contains escapes
	}
	if u.Path == "/v2/" || u.Path == "/v2" {
		return Access{Allowed: isRead(method), Query: u.RawQuery}
	}
	asked, ok := parse(u.Path)
	switch {
	case !ok || !mayRead(account, asked.repository):
		return Access{}
	case isRead(method) && asked.kind != "uploads":
		return Access{Allowed: true, Kind: asked.kind, Query: u.RawQuery}
	case owns(account, asked.repository):
		return write(account, method, asked, u, "")
	}
	digest, ok := buildplan.CopyDigest(asked.reference)
	if asked.kind == "manifests" && !ok {
		return Access{}
	}
	return write(account, method, asked, u, digest)
}

// write authorizes a request to a repository that the account may write to. A manifest needs the digest, unless that is empty.
func write(account Account, method string, asked target, u *url.URL, digest string) Access {
	switch {
	case asked.kind == "manifests" && method == http.MethodPut:
		return Access{Allowed: true, Kind: asked.kind, Digest: digest, Query: u.RawQuery}
	case asked.kind == "uploads" && asked.reference == "" && method == http.MethodPost:
		return Access{Allowed: true, Kind: asked.kind, Query: withoutForeignMount(account, u)}
	case asked.kind == "uploads" && asked.reference != "":
		switch method {
		case http.MethodGet, http.MethodPatch, http.MethodPut, http.MethodDelete: // of the upload
			return Access{Allowed: true, Kind: asked.kind, Query: u.RawQuery}
		}
	}
	return Access{}
}

// withoutForeignMount removes a mount from a repository that the account may not read. By the specification the registry then begins an
// upload.
func withoutForeignMount(account Account, u *url.URL) string {
	query := u.Query()
	for _, from := range query["from"] {
		if !mayRead(account, from) {
			query.Del("mount")
			query.Del("from")
			break
		}
	}
	if !query.Has("from") {
		query.Del("mount") // some registries then search all repositories
	}
	return query.Encode()
}

func parse(path string) (target, bool) {
	parts := targetForm.FindStringSubmatch(path)
	if parts == nil {
		return target{}, false
	}
	found := target{repository: parts[1]}
	for at := 2; at < len(parts); at += 2 {
		if parts[at] != "" {
			found.kind, found.reference = parts[at], parts[at+1]
		}
	}
	return found, true
}

func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }

func mayRead(account Account, repository string) bool {
	return owns(account, repository) || isBase(repository)
}

func owns(account Account, repository string) bool {
	return strings.HasPrefix(repository, registry.RepositoryPrefix(account.Name)) && !strings.Contains(repository, "/")
}

func isBase(repository string) bool {
	return strings.HasPrefix(repository, buildplan.BaseRepositories+"/")
}
