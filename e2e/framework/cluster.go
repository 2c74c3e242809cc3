package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Main is the main function of a program that uses the cluster: it runs until run returns or the user interrupts it,
// and exits with 1 when run fails.
func Main(name string, run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// System is Rouse's namespace.
const System = "rouse-system"

const fieldOwner = client.FieldOwner("rouse-e2e")

// Cluster is a connection to the cluster under test.
type Cluster struct {
	client.WithWatch
	Config *rest.Config
	Kube   kubernetes.Interface
}

// Connect connects to the cluster that KUBECONFIG names.
func Connect() (*Cluster, error) {
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		return nil, errors.New(`KUBECONFIG is not set: run "make cluster" and then eval "$(go run -C e2e/cluster . env)"`)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	config.QPS, config.Burst = 200, 400
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	withWatch, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &Cluster{WithWatch: withWatch, Config: config, Kube: kube}, nil
}

// ApplyYAML applies every document of a manifest by server-side apply. A namespace, when given, is set on
// documents that have none.
func (c *Cluster) ApplyYAML(ctx context.Context, namespace, manifest string) error {
	for _, document := range splitDocuments(manifest) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), object); err != nil {
			return fmt.Errorf("parse manifest: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if object.GetNamespace() == "" && namespace != "" && object.GetKind() != "Namespace" {
			object.SetNamespace(namespace)
		}
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
	}
	return nil
}

// TestNamespace makes a namespace for a test, dumps it when the test fails, and deletes it after the test.
func (c *Cluster) TestNamespace(t testing.TB, prefix string) string {
	t.Helper()
	namespace, err := c.CreateNamespace(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if t.Failed() {
			c.Dump(ctx, os.Stdout, namespace)
		}
		if err := c.DeleteNamespace(ctx, namespace); err != nil {
			t.Error(err)
		}
	})
	return namespace
}

// CreateNamespace makes a namespace with a generated name, under Pod Security "restricted".
func (c *Cluster) CreateNamespace(ctx context.Context, prefix string) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: prefix + "-",
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := c.Create(ctx, namespace); err != nil {
		return "", fmt.Errorf("create namespace %s-*: %w", prefix, err)
	}
	return namespace.Name, nil
}

// ConnectWithin connects to the cluster that KUBECONFIG names, and makes a namespace for a program. end deletes it, also when ctx has
// ended.
func ConnectWithin(ctx context.Context, prefix string) (c *Cluster, namespace string, end func(), err error) {
	if c, err = Connect(); err != nil {
		return nil, "", nil, err
	}
	if namespace, err = c.CreateNamespace(ctx, prefix); err != nil {
		return nil, "", nil, err
	}
	return c, namespace, func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		if err := c.DeleteNamespace(cleanup, namespace); err != nil {
			fmt.Fprintln(os.Stderr, "clean up:", err)
		}
	}, nil
}

// DeleteNamespace deletes a namespace and waits until it is gone.
func (c *Cluster) DeleteNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete namespace %s: %w", name, err)
	}
	return Await(ctx, 2*time.Minute, "namespace "+name+" to be gone", func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// DeleteDefinition deletes a CustomResourceDefinition, which an uninstallation keeps, together with all its objects.
func (c *Cluster) DeleteDefinition(ctx context.Context, name string) error {
	definition := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := c.Delete(ctx, definition); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the CustomResourceDefinition %s: %w", name, err)
	}
	return nil
}

// slack is the factor by which timeouts are extended for busy machines: they only detect hangs.
const slack = 3

// Await polls until the condition holds, for slack times the timeout. Errors of the condition do not end the wait,
// because servers restart during some features; the last error is returned at the timeout.
func Await(ctx context.Context, timeout time.Duration, what string, condition wait.ConditionWithContextFunc) error {
	timeout *= slack
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		done, err := condition(ctx)
		if last == nil || ctx.Err() == nil {
			last = err
		}
		return done && err == nil, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("waited %s for %s: %w", timeout, what, err), last)
	}
	return nil
}

// Forward forwards a port of a pod to loopback until ctx ends, and returns the local port.
func (c *Cluster) Forward(ctx context.Context, pod *corev1.Pod, port int) (uint16, error) {
	transport, upgrader, err := spdy.RoundTripperFor(c.Config)
	if err != nil {
		return 0, fmt.Errorf("make a transport: %w", err)
	}
	url := c.Kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)},
		ctx.Done(), ready, io.Discard, io.Discard)
	if err != nil {
		return 0, fmt.Errorf("forward port %d of %s: %w", port, pod.Name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		return 0, errors.Join(fmt.Errorf("forward port %d of %s ended", port, pod.Name), err)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return 0, fmt.Errorf("forward port %d of %s: %w", port, pod.Name, err)
	}
	return ports[0].Local, nil
}

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

const dumpedLogLines = 60

// Dump writes the information for analysing a failed feature: the objects of its namespace, its events, and the ends of
// the logs of its pods and of Rouse's own.
func (c *Cluster) Dump(ctx context.Context, out io.Writer, namespace string) {
	for _, kind := range []schema.GroupVersionKind{
		FunctionGVK, SubscriptionGVK, APIRuleGVK, HTTPRouteGVK, ScaledObjectGVK,
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "batch", Version: "v1", Kind: "Job"},
	} {
		c.dumpStatus(ctx, out, namespace, kind)
	}
	c.dumpEvents(ctx, out, namespace)
	for _, ns := range []string{namespace, System} {
		c.dumpPods(ctx, out, ns)
	}
}

func (c *Cluster) dumpStatus(ctx context.Context, out io.Writer, namespace string, kind schema.GroupVersionKind) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		_, _ = fmt.Fprintf(out, "--- %s: %v\n", kind.Kind, err)
		return
	}
	for _, item := range list.Items {
		status, err := yaml.Marshal(item.Object["status"])
		_, _ = fmt.Fprintf(out, "--- %s %s (error: %v)\n%s", kind.Kind, item.GetName(), err, status)
	}
}

func (c *Cluster) dumpEvents(ctx context.Context, out io.Writer, namespace string) {
	events := &corev1.EventList{}
	if err := c.List(ctx, events, client.InNamespace(namespace)); err != nil {
		_, _ = fmt.Fprintf(out, "--- events: %v\n", err)
		return
	}
	_, _ = fmt.Fprintf(out, "--- events of %s\n", namespace)
	for _, e := range events.Items {
		_, _ = fmt.Fprintf(out, "%s %s %s/%s %s: %s\n", e.LastTimestamp.UTC().Format("15:04:05"), e.Type,
			e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
	}
}

func (c *Cluster) dumpPods(ctx context.Context, out io.Writer, namespace string) {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(namespace)); err != nil {
		_, _ = fmt.Fprintf(out, "--- pods of %s: %v\n", namespace, err)
		return
	}
	for _, pod := range pods.Items {
		_, _ = fmt.Fprintf(out, "--- pod %s/%s %s\n", namespace, pod.Name, pod.Status.Phase)
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			text, err := c.Logs(ctx, namespace, pod.Name, container.Name, dumpedLogLines)
			_, _ = fmt.Fprintf(out, "%s: %s (error: %v)\n", container.Name, strings.TrimRight(text, "\n"), err)
		}
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if ended := status.State.Terminated; ended != nil {
				_, _ = fmt.Fprintf(out, "%s ended with %d: %s\n", status.Name, ended.ExitCode, ended.Message)
			} else if waiting := status.State.Waiting; waiting != nil {
				_, _ = fmt.Fprintf(out, "%s waits: %s: %s\n", status.Name, waiting.Reason, waiting.Message)
			}
		}
	}
}

// Logs returns the last lines of a container's log, or all of it for 0 lines.
func (c *Cluster) Logs(ctx context.Context, namespace, pod, container string, lines int64) (string, error) {
	options := &corev1.PodLogOptions{Container: container}
	if lines > 0 {
		options.TailLines = new(lines)
	}
	text, err := c.Kube.CoreV1().Pods(namespace).GetLogs(pod, options).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("read log of %s/%s: %w", namespace, pod, err)
	}
	return string(text), nil
}
