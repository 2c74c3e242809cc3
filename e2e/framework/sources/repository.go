package sources

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Repository is a bare Git repository on the server.
type Repository struct {
	server *Server
	path   string
	grown  map[string]bool // branches that have a commit
}

// Repository makes an empty repository. A private one asks for the user over HTTP; over SSH all do.
func (s *Server) Repository(ctx context.Context, name string, private bool) (*Repository, error) {
	path := "public/" + name + ".git"
	if private {
		path = "private/" + name + ".git"
	}
	if _, err := s.run(ctx, nil, `git init --quiet --bare --initial-branch=main "/srv/git/$1"`, path); err != nil {
		return nil, fmt.Errorf("make the repository %s: %w", path, err)
	}
	return &Repository{server: s, path: path, grown: map[string]bool{}}, nil
}

// HTTP is the repository's URL over HTTP.
func (r *Repository) HTTP() string { return "http://" + r.server.Host() + "/git/" + r.path }

// HTTPS is the repository's URL over HTTPS. No client trusts the certificate's authority.
func (r *Repository) HTTPS() string { return "https://" + r.server.Host() + "/git/" + r.path }

// SSH is the repository's URL over SSH.
func (r *Repository) SSH() string { return "ssh://git@" + r.server.Host() + "/srv/git/" + r.path }

const linkTo = "\x00link to "

// Link is the content of a file that is a symbolic link.
func Link(target string) string { return linkTo + target }

// Commit moves a branch to a new commit that has these files and no others, and returns its hash.
func (r *Repository) Commit(ctx context.Context, branch string, files map[string]string) (string, error) {
	stream := commitStream(branch, r.grown[branch], time.Now(), files)
	hash, err := r.server.run(ctx, strings.NewReader(stream), `cd "/srv/git/$1"; git fast-import --quiet; git rev-parse "refs/heads/$2"`, r.path, branch)
	if err != nil {
		return "", fmt.Errorf("commit to %s: %w", r.path, err)
	}
	r.grown[branch] = true
	return strings.TrimSpace(hash), nil
}

// Tag makes an annotated tag.
func (r *Repository) Tag(ctx context.Context, tag, hash string) error {
	if _, err := r.server.run(ctx, nil, `git -C "/srv/git/$1" tag --annotate --message "$2" "$2" "$3"`, r.path, tag, hash); err != nil {
		return fmt.Errorf("tag %s: %w", r.path, err)
	}
	return nil
}

// commitStream is what git fast-import makes a commit of.
func commitStream(branch string, grown bool, at time.Time, files map[string]string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "commit refs/heads/%s\ncommitter Shop <shop@example.org> %d +0000\ndata 6\nchange\n", branch, at.Unix())
	if grown {
		fmt.Fprintf(&text, "from refs/heads/%s^0\n", branch)
	}
	text.WriteString("deleteall\n")
	for _, path := range slices.Sorted(maps.Keys(files)) {
		mode, content := "100644", files[path]
		if target, link := strings.CutPrefix(content, linkTo); link {
			mode, content = "120000", target
		}
		fmt.Fprintf(&text, "M %s inline %s\ndata %d\n%s\n", mode, path, len(content), content)
	}
	return text.String()
}
