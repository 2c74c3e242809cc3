package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// Commit identifies the commit and the directory that Fetch retrieves.
type Commit struct {
	Hash string
	// Reference is a branch or tag that contains the commit. It is requested from servers that do not serve single
	// commits.
	Reference string
	// BaseDir is the directory whose files are fetched; empty for the root.
	BaseDir string
}

const (
	objectCache = 16 << 20 // bytes of objects in memory
	largeObject = 1 << 20  // bytes; a larger one is never held in memory as a whole
	// deepest limits the distance of a commit from the tip of its branch on servers that serve only branches.
	deepest = 1000
)

// Fetch writes the files of one directory of a commit into the directory into, which exists and is empty.
// Submodules are left out.
func (c *Client) Fetch(ctx context.Context, repository Repository, commit Commit, into string) error {
	store, err := os.MkdirTemp("", "git-")
	if err != nil {
		return fmt.Errorf("make a directory for git objects: %w", err)
	}
	defer func() { _ = os.RemoveAll(store) }()
	f := &fetch{
		client: c, repository: repository, hash: plumbing.NewHash(commit.Hash),
		storage: filesystem.NewStorageWithOptions(osfs.New(store), cache.NewObjectLRU(objectCache),
			filesystem.Options{LargeObjectThreshold: largeObject}),
	}
	if err := f.commit(ctx, commit); err != nil {
		return explain(err, repository)
	}
	tree, err := f.tree(commit.BaseDir)
	if err != nil {
		return explain(err, repository)
	}
	if f.sparse {
		if err := f.blobs(ctx, tree); err != nil {
			return explain(err, repository)
		}
	}
	return write(tree, into)
}

// fetch is the state of one Fetch.
type fetch struct {
	client     *Client
	repository Repository
	hash       plumbing.Hash
	storage    *filesystem.Storage
	// sparse means that the commit was received without the contents of its files.
	sparse bool
}

// commit fetches the commit alone or, if the server refuses, the history of its branch.
func (f *fetch) commit(ctx context.Context, commit Commit) error {
	opened, err := f.client.open(ctx, f.repository)
	if err != nil {
		return err
	}
	f.sparse = strings.Trim(commit.BaseDir, "/ ") != "" && givesSingleObjects(opened) && opened.advertised.Capabilities.Supports(capability.Filter)
	err = f.pack(ctx, opened, 1, f.hash)
	if err == nil {
		return nil
	}
	// The next attempt needs a new session.
	opened, openErr := f.client.open(ctx, f.repository, commit.Reference)
	if openErr != nil {
		return openErr
	}
	f.sparse = false
	tip, resolveErr := opened.wanted.references().Resolve(commit.Reference)
	if resolveErr != nil || IsCommit(commit.Reference) {
		_ = opened.Close()
		return missing(commit, f.repository, err)
	}
	if err := f.pack(ctx, opened, deepest, plumbing.NewHash(tip)); err != nil {
		return err
	}
	if _, err := object.GetCommit(f.storage, f.hash); err != nil {
		return missing(commit, f.repository, err)
	}
	return nil
}

func missing(commit Commit, repository Repository, err error) error {
	return &Error{Kind: ReferenceNotFound, err: err, Message: fmt.Sprintf(
		"commit %s of %s cannot be fetched: %s. Name a branch or tag that contains it in spec.source.gitRepository.reference",
		commit.Hash, repository.redacted(), reason(err))}
}

func givesSingleObjects(s *session) bool {
	return s.advertised.Capabilities.Supports(capability.AllowReachableSHA1InWant)
}

// pack requests objects, stores them and closes the session.
func (f *fetch) pack(ctx context.Context, opened *session, depth int, wants ...plumbing.Hash) (err error) {
	defer func() { _ = opened.Close() }()
	offered := opened.advertised.Capabilities
	request := packp.NewUploadPackRequestFromCapabilities(offered)
	request.Wants = wants
	if depth > 0 {
		request.Depth = packp.DepthCommits(depth)
		if err := request.Capabilities.Set(capability.Shallow); err != nil {
			return err
		}
	}
	if offered.Supports(capability.NoProgress) {
		if err := request.Capabilities.Set(capability.NoProgress); err != nil {
			return err
		}
	}
	if f.sparse && depth > 0 {
		request.Filter = packp.FilterBlobNone()
		if err := request.Capabilities.Set(capability.Filter); err != nil {
			return err
		}
	}
	response, err := opened.UploadPack(ctx, request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Close()) }()
	if err := f.storage.SetShallow(response.Shallows); err != nil {
		return err
	}
	return packfile.UpdateObjectStorage(f.storage, demultiplexed(request.Capabilities, response))
}

func demultiplexed(capabilities *capability.List, response *packp.UploadPackResponse) packReader {
	switch {
	case capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, response)
	case capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, response)
	default:
		return response
	}
}

type packReader interface{ Read([]byte) (int, error) }

func (f *fetch) tree(baseDir string) (*object.Tree, error) {
	commit, err := object.GetCommit(f.storage, f.hash)
	if err != nil {
		return nil, err
	}
	tree, err := commit.Tree()
	if err != nil {
		return nil, err
	}
	dir := strings.TrimPrefix(path.Clean("/"+strings.TrimSpace(baseDir)), "/")
	if dir == "" {
		return tree, nil
	}
	found, err := tree.Tree(dir)
	if errors.Is(err, object.ErrDirectoryNotFound) || errors.Is(err, object.ErrEntryNotFound) {
		return nil, &Error{Kind: DirectoryNotFound, err: err, Message: fmt.Sprintf(
			"there is no directory %q in commit %s of %s. Correct spec.source.gitRepository.baseDir", dir, f.hash, f.repository.redacted())}
	}
	return found, err
}

// blobs fetches the contents of the files below a tree.
func (f *fetch) blobs(ctx context.Context, tree *object.Tree) error {
	wants, err := contents(tree)
	if err != nil || len(wants) == 0 {
		return err
	}
	opened, err := f.client.open(ctx, f.repository)
	if err != nil {
		return err
	}
	err = f.pack(ctx, opened, 0, wants...)
	if errors.Is(err, transport.ErrEmptyUploadPackRequest) {
		return nil
	}
	return err
}

// contents lists the objects of the files below a tree, without duplicates.
func contents(tree *object.Tree) ([]plumbing.Hash, error) {
	walker := object.NewTreeWalker(tree, true, nil)
	defer walker.Close()
	var hashes []plumbing.Hash
	known := map[plumbing.Hash]bool{}
	for {
		_, entry, err := walker.Next()
		if errors.Is(err, io.EOF) {
			return hashes, nil
		}
		if err != nil {
			return nil, err
		}
		if isContent(entry.Mode) && !known[entry.Hash] {
			known[entry.Hash] = true
			hashes = append(hashes, entry.Hash)
		}
	}
}

func isContent(mode filemode.FileMode) bool { return mode.IsFile() }

// write writes the files below a tree into a directory. os.Root keeps everything within it, regardless of the names and
// links in the tree.
func write(tree *object.Tree, into string) error {
	root, err := os.OpenRoot(into)
	if err != nil {
		return fmt.Errorf("write the source: %w", err)
	}
	defer func() { _ = root.Close() }()
	walker := object.NewTreeWalker(tree, true, nil)
	defer walker.Close()
	var links []string
	for {
		name, entry, err := walker.Next()
		if errors.Is(err, io.EOF) {
			return checkLinks(root, links)
		}
		if err != nil {
			return fmt.Errorf("read the source: %w", err)
		}
		if err := writeEntry(root, tree, name, entry); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if entry.Mode == filemode.Symlink {
			links = append(links, name)
		}
	}
}

// checkLinks follows every link after all were created: each may stay within the directory, and one through another
// lead out of it. A dangling link is harmless.
func checkLinks(root *os.Root, links []string) error {
	for _, name := range links {
		_, err := root.Stat(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ELOOP) && !errors.Is(err, syscall.ENOTDIR) {
			return leadsOut(name, err)
		}
	}
	return nil
}

func leadsOut(name string, err error) error {
	return &Error{Kind: DirectoryNotFound, err: err, Message: fmt.Sprintf(
		"the link %s leads out of spec.source.gitRepository.baseDir. Replace it by a copy", name)}
}

func writeEntry(root *os.Root, tree *object.Tree, name string, entry object.TreeEntry) error {
	switch {
	case entry.Mode == filemode.Dir:
		return root.MkdirAll(name, 0o755)
	case !isContent(entry.Mode):
		return nil // a submodule
	}
	file, err := tree.TreeEntryFile(&entry)
	if err != nil {
		return err
	}
	if entry.Mode == filemode.Symlink {
		return writeLink(root, name, file)
	}
	mode := os.FileMode(0o644)
	if entry.Mode == filemode.Executable {
		mode = 0o755
	}
	content, err := file.Reader()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	written, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(written, content)
	return errors.Join(err, written.Close())
}

// writeLink creates a link that stays within the directory and rejects any other.
func writeLink(root *os.Root, name string, file *object.File) error {
	target, err := file.Contents()
	if err != nil {
		return err
	}
	if !filepath.IsLocal(filepath.Join(filepath.Dir(name), target)) || filepath.IsAbs(target) {
		return leadsOut(name, nil)
	}
	return root.Symlink(target, name)
}
