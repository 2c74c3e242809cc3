package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

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
