package skew

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

const (
	// Level of the admin API: one more with each addition that a client can ask for.
	Level = 1
	// Oldest level of clients that the admin API answers as they expect it.
	Oldest = 1
	// Header of requests and answers of the admin API has the Side that sends it.
	Header = "Rouse-Admin-Api"
	// NoSuchPath is what the admin API says of a path that it does not have.
	NoSuchPath = "there is no such path"
)

// Why sides do not fit.
var (
	// ErrClientTooOld means that the bridge has dropped what the client relies on.
	ErrClientTooOld = errors.New("this rouse is too old")
	// ErrServerTooOld means that the client asks for what the bridge does not know yet.
	ErrServerTooOld = errors.New("the cluster's Rouse is too old")
)

// Side is what a client or a bridge says of itself.
type Side struct {
	Level   int
	Oldest  int
	Version string
}

// This is the side of a binary of that version.
func This(version string) Side { return Side{Level: Level, Oldest: Oldest, Version: version} }

// String is the value of Header.
func (s Side) String() string {
	return fmt.Sprintf("level=%d; oldest=%d; version=%s", s.Level, s.Oldest, s.Version)
}

// maxVersion bounds what of a foreign text is shown.
const maxVersion = 64

// Parse reads the value of Header. Fields that are not known are those of a later release.
func Parse(text string) (Side, bool) {
	var s Side
	for field := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		var err error
		switch name {
		case "level":
			s.Level, err = strconv.Atoi(value)
		case "oldest":
			s.Oldest, err = strconv.Atoi(value)
		case "version":
			s.Version = value
		}
		if err != nil {
			return Side{}, false
		}
	}
	return s, s.Level > 0 && s.Oldest > 0 && isVersion(s.Version)
}

// isVersion keeps out what could move a terminal's cursor.
func isVersion(text string) bool {
	return text != "" && len(text) <= maxVersion && strings.IndexFunc(text, func(r rune) bool {
		return r != '.' && r != '-' && r != '+' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}

// Serves is an error if a bridge no longer answers such a client as it expects.
func Serves(server, client Side) error {
	if client.Level >= server.Oldest {
		return nil
	}
	return fmt.Errorf("%w: it is %s, and what it asks the cluster's Rouse %s has dropped: use rouse %s",
		ErrClientTooOld, client.Version, server.Version, server.Version)
}

// Knows explains an answer by which a bridge refused what a client asked: it is an error if the bridge may not know that yet.
func Knows(server, client Side) error {
	if server.Level >= client.Level {
		return nil
	}
	return fmt.Errorf("%w: it is %s, and may not know yet what this rouse %s asks: upgrade it to %s, or use rouse %s",
		ErrServerTooOld, server.Version, client.Version, client.Version, server.Version)
}

// Resource is an error if a cluster serves a resource, and not in the version that the command line reads. Of a resource that is
// not served at all it says nothing.
func Resource(name, wanted string, served []string) error {
	if len(served) == 0 || slices.Contains(served, wanted) {
		return nil
	}
	newest := slices.MaxFunc(served, version.CompareKubeAwareVersionStrings)
	shown := strings.Join(served, ", ")
	if version.CompareKubeAwareVersionStrings(newest, wanted) > 0 {
		return fmt.Errorf("%w: it reads %s in %s, and the cluster serves %s: use the rouse of the release in the cluster",
			ErrClientTooOld, name, wanted, shown)
	}
	return fmt.Errorf("%w: it serves %s in %s, and this rouse reads %s: upgrade it, or use the rouse of its release",
		ErrServerTooOld, name, shown, wanted)
}
