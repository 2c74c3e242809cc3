package framework

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// Exec runs a command in a container and returns its output. Stdin may be nil.
func (c *Cluster) Exec(ctx context.Context, namespace, pod, container string, stdin io.Reader, command ...string) (string, error) {
	options := &corev1.PodExecOptions{Container: container, Command: command, Stdin: stdin != nil, Stdout: true, Stderr: true}
	url := c.Kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(options, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewSPDYExecutor(c.Config, "POST", url)
	if err != nil {
		return "", fmt.Errorf("prepare a command in %s: %w", pod, err)
	}
	var out, problems bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: &out, Stderr: &problems}); err != nil {
		return "", fmt.Errorf("run a command in %s: %w: %s", pod, err, strings.TrimSpace(problems.String()))
	}
	return out.String(), nil
}
