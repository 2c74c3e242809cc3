package manifest

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/rouse-run/rouse/internal/sourcefiles"
)

// maxConfig bounds the configuration of a repository.
const maxConfig = 1 << 20

// workingTree returns the files of a Function's repository if its manifest is in a working tree of that; nil if it is
// not, or if the Function names a commit.
func workingTree(fn *Function) (*Files, error) {
	source := fn.Spec.Source.GitRepository
	if plumbing.IsHash(strings.TrimSpace(source.Reference)) {
		return nil, nil
	}
	top, remotes := checkout(filepath.Dir(fn.At.File))
	if !slices.ContainsFunc(remotes, func(remote string) bool { return sameRepository(remote, source.URL) }) {
		return nil, nil
	}
	base := filepath.Join(top, filepath.Clean("/"+source.BaseDir))
	content, err := sourcefiles.ReadTree(base)
	if err != nil {
		return nil, fmt.Errorf("folder %s: %w", base, err)
	}
	return &Files{Dir: shownPath(fn.At.File, base), Repository: top, Content: content}, nil
}

// shownPath returns the path of a folder as the user would write it beside a file.
func shownPath(file, folder string) string {
	if filepath.IsAbs(file) {
		return folder
	}
	here, err := os.Getwd()
	if err != nil {
		return folder
	}
	if relative, err := filepath.Rel(here, folder); err == nil {
		return relative
	}
	return folder
}

// checkout returns the top of the working tree that contains a folder, and the addresses of its remotes.
func checkout(folder string) (top string, remotes []string) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", nil
	}
	for {
		if _, err := os.Lstat(filepath.Join(folder, ".git")); err == nil {
			return folder, remotesIn(filepath.Join(folder, ".git"))
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", nil
		}
		folder = parent
	}
}

// remotesIn reads the configuration of a repository. That of a further working tree is in the first one's.
func remotesIn(git string) []string {
	if text, err := os.ReadFile(git); err == nil { //nolint:gosec // of the user's own repository
		place, found := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
		if !found {
			return nil
		}
		if !filepath.IsAbs(place) {
			place = filepath.Join(filepath.Dir(git), place)
		}
		git = place
		if common, err := os.ReadFile(filepath.Join(place, "commondir")); err == nil { //nolint:gosec // as above
			git = filepath.Join(place, strings.TrimSpace(string(common)))
		}
	}
	file, err := os.Open(filepath.Join(git, "config")) //nolint:gosec // as above
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	parsed, err := config.ReadConfig(io.LimitReader(file, maxConfig))
	if err != nil {
		return nil
	}
	var addresses []string
	for _, remote := range parsed.Remotes {
		addresses = append(addresses, remote.URLs...)
	}
	return addresses
}

// sameRepository compares addresses of repositories, whatever the protocol and the login.
func sameRepository(a, b string) bool {
	a, b = placeOf(a), placeOf(b)
	return a != "" && a == b
}

// placeOf returns the host and the path of a repository, empty for one on this machine.
func placeOf(address string) string {
	address = strings.TrimSpace(address)
	host, folder := "", ""
	if parsed, err := url.Parse(address); err == nil && parsed.Host != "" {
		host, folder = parsed.Host, parsed.Path
	} else if before, after, found := strings.Cut(address, ":"); found && !strings.Contains(before, "/") { // user@host:path
		host, folder = before[strings.LastIndex(before, "@")+1:], after
	}
	folder = strings.TrimSuffix(strings.Trim(folder, "/"), ".git")
	if host == "" || folder == "" {
		return ""
	}
	return strings.ToLower(host) + "/" + folder
}
