package sources

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"embed"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"text/template"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/e2e/framework"
)

// The user of everything that is private.
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
	// PrivateKey logs in over SSH.
	PrivateKey string

	cluster   *framework.Cluster
	namespace string
}

// Start runs a server in a namespace and waits until it answers.
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

// Host is the server's name in the cluster.
func (s *Server) Host() string { return name + "." + s.namespace + ".svc.cluster.local" }

// imageOf finds the image: the local cluster has one, for another cluster the user names one.
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

// NewKey makes a private key for SSH that the server does not know.
func NewKey() (string, error) {
	private, _, err := newKey()
	return private, err
}

// newKey makes a key for SSH: the private half as OpenSSH keeps it, the public one as a line of authorized_keys.
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
