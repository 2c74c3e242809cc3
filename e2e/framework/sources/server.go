package sources

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"embed"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/template"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/e2e/framework"
)

// The user for everything private.
const (
	User     = "shop"
	Password = "to-be-guessed"
)

const (
	name      = "sources"
	imageEnv  = "ROUSE_SOURCE_SERVER"
	container = "http"
)

//go:embed server
var files embed.FS

// Server is a running server of sources.
type Server struct {
	// PrivateKey is the private key for SSH.
	PrivateKey string

	cluster   *framework.Cluster
	namespace string
}

// Start runs a server in a namespace and waits until it responds.
func Start(ctx context.Context, cluster *framework.Cluster, namespace string) (*Server, error) {
	image, err := imageOf(ctx, cluster)
	if err != nil {
		return nil, err
	}
	private, authorized, err := newKey()
	if err != nil {
		return nil, err
	}
	server := &Server{PrivateKey: private, cluster: cluster, namespace: namespace}
	manifest, err := server.manifest(image, authorized)
	if err != nil {
		return nil, err
	}
	if err := cluster.ApplyYAML(ctx, namespace, manifest); err != nil {
		return nil, err
	}
	return server, framework.Await(ctx, time.Minute, "the server of sources", func(ctx context.Context) (bool, error) {
		pod := &corev1.Pod{}
		err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
		return err == nil && framework.Ready(pod), err
	})
}

// Host returns the server's name in the cluster.
func (s *Server) Host() string { return name + "." + s.namespace + ".svc.cluster.local" }

// imageOf returns the server's image: the local cluster provides one, for another cluster the user names one.
func imageOf(ctx context.Context, cluster *framework.Cluster) (string, error) {
	if image := os.Getenv(imageEnv); image != "" {
		return image, nil
	}
	fixtures := &corev1.ConfigMap{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "rouse-fixtures"}, fixtures); err != nil {
		return "", fmt.Errorf("find the image of the server of sources: on a cluster of your own set %s to an image with git, "+
			"sshd, lighttpd and a user git of UID 1000: %w", imageEnv, err)
	}
	return fixtures.Data["source-server"], nil
}

// NewKey returns a private key for SSH that the server does not accept.
func NewKey() (string, error) {
	private, _, err := newKey()
	return private, err
}

// newKey returns a key for SSH: the private half in OpenSSH's format, the public half as a line of authorized_keys.
func newKey() (private, authorized string, err error) {
	public, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", "", fmt.Errorf("make an SSH key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(secret, "")
	if err != nil {
		return "", "", fmt.Errorf("encode the SSH key: %w", err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return "", "", fmt.Errorf("encode the SSH key: %w", err)
	}
	return string(pem.EncodeToMemory(block)), string(ssh.MarshalAuthorizedKey(key)), nil
}

func (s *Server) manifest(image, authorized string) (string, error) {
	data := map[string]string{"users": User + ":" + Password + "\n", "authorized_keys": authorized}
	for _, file := range []string{"lighttpd.conf", "sshd_config", "gitconfig"} {
		text, err := files.ReadFile("server/" + file)
		if err != nil {
			return "", fmt.Errorf("read the configuration of the server: %w", err)
		}
		data[file] = string(text)
	}
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": data,
	})
	if err != nil {
		return "", fmt.Errorf("encode the configuration of the server: %w", err)
	}
	parsed, err := template.ParseFS(files, "server/pod.yaml")
	if err != nil {
		return "", fmt.Errorf("parse the manifest of the server: %w", err)
	}
	var pod bytes.Buffer
	if err := parsed.Execute(&pod, map[string]string{"Name": name, "Image": image, "Host": s.Host()}); err != nil {
		return "", fmt.Errorf("render the manifest of the server: %w", err)
	}
	return string(config) + "---\n" + pod.String(), nil
}

// run runs a shell script in the server, with arguments $1, $2 and so on.
func (s *Server) run(ctx context.Context, stdin io.Reader, script string, args ...string) (string, error) {
	command := append([]string{"sh", "-euc", script, "sh"}, args...)
	return s.cluster.Exec(ctx, s.namespace, name, container, stdin, command...)
}

// Repository is a bare Git repository on the server.
type Repository struct {
	server *Server
	path   string
	grown  map[string]bool // branches that have a commit
}

// Repository makes an empty repository. A private one requires the user over HTTP; over SSH all do.
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

// HTTP returns the repository's URL over HTTP.
func (r *Repository) HTTP() string { return "http://" + r.server.Host() + "/git/" + r.path }

// HTTPS returns the repository's URL over HTTPS. No client trusts the certificate's authority.
func (r *Repository) HTTPS() string { return "https://" + r.server.Host() + "/git/" + r.path }

// SSH returns the repository's URL over SSH.
func (r *Repository) SSH() string { return "ssh://git@" + r.server.Host() + "/srv/git/" + r.path }

const linkTo = "\x00link to "

// Link returns file content that stands for a symbolic link.
func Link(target string) string { return linkTo + target }

// Commit moves a branch to a new commit with exactly these files, and returns its hash.
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

// commitStream returns the input of git fast-import for a commit.
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
