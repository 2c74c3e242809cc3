package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/rouse-run/rouse/internal/testing/envtest"
)

// auditPolicy has one line written for each answer to the controller, and none for anybody else.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: Metadata
    users: [%q]
  - level: None
`

// cluster is a kube-apiserver with its etcd.
type cluster struct {
	*envtest.Environment
	plane      *envtest.Cluster
	kubeconfig string // of the controller
	audit      *audit
}

func startCluster(ctx context.Context, dir string, s shipped) (c *cluster, err error) {
	user := "system:serviceaccount:" + releaseNamespace + ":" + s.account
	ctrllog.SetLogger(logr.Discard()) // of envtest and the watches
	policy, log := filepath.Join(dir, "audit.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, fmt.Appendf(nil, auditPolicy, user), 0o600); err != nil {
		return nil, fmt.Errorf("write the audit policy: %w", err)
	}
	c = &cluster{audit: &audit{path: log, counted: calls{}}, plane: envtest.New(envtest.WithKEDA(), envtest.WithFlags(
		map[string]string{
			"audit-policy-file": policy, "audit-log-path": log, "audit-log-maxsize": "100000",
			"service-cluster-ip-range": "10.0.0.0/16", // each Function has a Service
		},
		map[string]string{"quota-backend-bytes": "8589934592"},
	))}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.Environment, err = c.plane.Start(); err != nil {
		return c, fmt.Errorf("start the control plane: %w", err)
	}
	c.Config.QPS = -1 // as many calls as it takes
	if c.Client, err = client.New(c.Config, client.Options{Scheme: c.Scheme}); err != nil {
		return c, fmt.Errorf("make a client: %w", err)
	}
	config, err := c.KubeConfig(user, "system:serviceaccounts", "system:serviceaccounts:"+releaseNamespace)
	if err != nil {
		return c, err
	}
	c.kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(c.kubeconfig, config, 0o600); err != nil {
		return c, fmt.Errorf("write the kubeconfig: %w", err)
	}
	return c, c.install(ctx, s)
}

func (c *cluster) close() error { return c.plane.Stop() }

// install makes what the chart has, as far as the controller reads it. The gateways' Service has one that is not ready: so all
// Functions have their slice for activators, and no activator is asked.
func (c *cluster) install(ctx context.Context, s shipped) error {
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: releaseNamespace}}}
	for _, each := range s.rights {
		objects = append(objects, each)
	}
	objects = append(objects, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: releaseNamespace, Name: "rouse-gateway-bench", Labels: map[string]string{
			discoveryv1.LabelServiceName: "rouse-gateway",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.1.2.3"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)},
		}},
	})
	for _, object := range objects {
		if err := c.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("install %s: %w", object.GetName(), err)
		}
	}
	return nil
}

const (
	releaseNamespace = "rouse-system"
	memoryVariable   = "GOMEMLIMIT"
)

// shipped is the controller as the chart runs it.
type shipped struct {
	args        []string
	environment []string
	limit       string // of memory
	account     string
	rights      []*unstructured.Unstructured
}

func (s *shipped) memory() string {
	for _, variable := range s.environment {
		if value, ok := strings.CutPrefix(variable, memoryVariable+"="); ok {
			return value
		}
	}
	return "none"
}

// readChart renders the chart as it comes with the Helm that is pinned in tools.
func readChart(ctx context.Context, chart string) (s shipped, err error) {
	path, err := exec.CommandContext(ctx, "go", "-C", "tools", "tool", "-n", "helm").Output()
	if err != nil {
		return s, fmt.Errorf("build helm from tools: %w", err)
	}
	var problem bytes.Buffer
	render := exec.CommandContext(ctx, strings.TrimSpace(string(path)), "template", "rouse", chart,
		"--namespace", releaseNamespace, "--kube-version", "1.36.0",
		"--show-only", "templates/controller/deployment.yaml",
		"--show-only", "templates/controller/rbac.yaml",
		"--show-only", "templates/controller/lease.yaml")
	render.Stderr = &problem
	rendered, err := render.Output()
	if err != nil {
		return s, fmt.Errorf("render the chart: %w: %s", err, problem.String())
	}
	for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 1<<16); ; {
		object := &unstructured.Unstructured{}
		err := documents.Decode(object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return s, fmt.Errorf("read the chart: %w", err)
		}
		if object.GetKind() != "Deployment" {
			s.rights = append(s.rights, object)
			continue
		}
		if err := s.take(object); err != nil {
			return s, err
		}
	}
	if s.account == "" {
		return s, errors.New("read the chart: it has no Deployment of the controller")
	}
	return s, nil
}

func (s *shipped) take(object *unstructured.Unstructured) error {
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	pod := &deployment.Spec.Template.Spec
	container := &pod.Containers[0]
	s.args, s.account, s.limit = container.Args, pod.ServiceAccountName, container.Resources.Limits.Memory().String()
	for _, variable := range container.Env {
		s.environment = append(s.environment, variable.Name+"="+variable.Value)
	}
	return nil
}
