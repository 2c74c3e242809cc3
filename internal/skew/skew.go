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
	// Level is the level of the admin API, incremented with each addition that a client can request.
	Level = 2
	// Oldest is the oldest level of clients that the admin API still serves.
	Oldest = 1
	// Header is the header with the Side of the sender in requests and responses of the admin API.
	Header = "Rouse-Admin-Api"
	// NoSuchPath is the admin API's error for an unknown path.
	NoSuchPath = "there is no such path"
)

// The reasons for incompatibility.
var (
	// ErrClientTooOld means that the bridge no longer supports the client's requests.
	ErrClientTooOld = errors.New("this rouse is too old")
	// ErrServerTooOld means that the client requests a feature that the bridge does not support yet.
	ErrServerTooOld = errors.New("the cluster's Rouse is too old")
)

// Side describes the capabilities of a client or a bridge.
type Side struct {
	Level   int
	Oldest  int
	Version string
}

// This returns the side of a binary of the given version.
func This(version string) Side { return Side{Level: Level, Oldest: Oldest, Version: version} }

// String returns the value of Header.
func (s Side) String() string {
	return fmt.Sprintf("level=%d; oldest=%d; version=%s", s.Level, s.Oldest, s.Version)
}

// maxVersion limits the length of a version from the other side in messages.
const maxVersion = 64

// Parse parses the value of Header. Unknown fields belong to a later release and are ignored.
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

// isVersion rejects control characters, which could move a terminal's cursor.
func isVersion(text string) bool {
	return text != "" && len(text) <= maxVersion && strings.IndexFunc(text, func(r rune) bool {
		return r != '.' && r != '-' && r != '+' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}

// Serves returns an error if a bridge no longer serves a client.
func Serves(server, client Side) error {
	if client.Level >= server.Oldest {
		return nil
	}
	return fmt.Errorf("%w: it is %s, and the cluster's Rouse %s has dropped its requests: use rouse %s",
		ErrClientTooOld, client.Version, server.Version, server.Version)
}

// Knows explains why a bridge rejected a client's request: it returns an error if the bridge may not support it yet.
func Knows(server, client Side) error {
	if server.Level >= client.Level {
		return nil
	}
	return fmt.Errorf("%w: it is %s, and may not support the requests of this rouse %s yet: upgrade it to %s, or use rouse %s",
		ErrServerTooOld, server.Version, client.Version, client.Version, server.Version)
}

// Resource returns an error if a cluster serves a resource, but not in the version that the command line uses. It
// returns nil for a resource that is not served at all.
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
