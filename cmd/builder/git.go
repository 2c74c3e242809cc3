package main

import (
	"context"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/git"
)

// repositories are read with the credentials in a directory.
type repositories struct{ dir string }

// Fetch writes the files of the source's directory at its commit into a directory.
func (r repositories) Fetch(ctx context.Context, source buildplan.Git, ca []byte, into string) error {
	credentials, err := git.ReadDir(source.Auth, r.dir)
	if err != nil {
		return err
	}
	client, err := git.New(git.Options{CA: ca})
	if err != nil {
		return err
	}
	return client.Fetch(ctx,
		git.Repository{URL: source.URL, Credentials: credentials},
		git.Commit{Hash: source.Commit, Reference: source.Reference, BaseDir: buildplan.CleanDir(source.BaseDir)}, into)
}
