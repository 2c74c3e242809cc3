package component

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Jar is an artifact of Maven's central repository with programs in it, for what neither a Go module nor a Python package holds.
type Jar struct {
	Group, Artifact, Version string
	Hashes                   map[string]string // SHA-256 by the architecture as Go names it
}

// copier is the plugin that fetches artifacts. What it fetched is checked here, so that it need not be trusted.
const copier = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"

// platforms are the names that these artifacts have for architectures.
var platforms = map[string]string{"amd64": "linux-x86_64", "arm64": "linux-arm64"}

// fetch gets the archive of an architecture into dir and refuses any other content than the one whose hash is known.
func (j Jar) fetch(ctx context.Context, architecture, dir, log string) (string, error) {
	hash, known := j.Hashes[architecture]
	if !known {
		return "", fmt.Errorf("there is no %s for %s", j.Artifact, architecture)
	}
	// Maven reads what lies in the directory it starts in.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	wanted := j.Group + ":" + j.Artifact + ":" + j.Version + ":jar:" + platforms[architecture]
	get := command.Command{Name: "mvn", Dir: dir, Log: log, Args: []string{
		"--batch-mode", "--no-transfer-progress", "--strict-checksums", copier, "-Dartifact=" + wanted, "-DoutputDirectory=" + dir,
	}}
	if err := downloaded(ctx, get); err != nil {
		return "", fmt.Errorf("fetch %s: %w", wanted, err)
	}
	archive := filepath.Join(dir, j.Artifact+"-"+j.Version+"-"+platforms[architecture]+".jar")
	return archive, checkSum(archive, wanted, hash)
}

func checkSum(archive, name, hash string) error {
	sum, err := state.SumFile(archive)
	if err == nil && sum != hash {
		err = fmt.Errorf("%s has the SHA-256 %s and not %s: it is another archive than the one that was looked at", name, sum, hash)
	}
	return err
}
