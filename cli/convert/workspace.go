package convert

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	serverless "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// The values of a workspace's source.sourceType.
const (
	sourceInline = "inline"
	sourceGit    = "git"
)

// defaultGateway is the gateway of APIRules without one, as Kyma's command line has it.
const defaultGateway = "kyma-system/kyma-gateway"

// workspace is the config.yaml of Kyma's command line, version 2.
type workspace struct {
	Name                 string            `json:"name"`
	Namespace            string            `json:"namespace"`
	Labels               map[string]string `json:"labels"`
	Runtime              string            `json:"runtime"`
	RuntimeImageOverride string            `json:"runtimeImageOverride"`
	RuntimeLabels        map[string]string `json:"runtimeLabels"`
	RuntimeAnnotations   map[string]string `json:"runtimeAnnotations"`
	SchemaVersion        string            `json:"schemaVersion"`

	Source        workspaceSource              `json:"source"`
	Resources     *corev1.ResourceRequirements `json:"resource"`
	Env           []corev1.EnvVar              `json:"env"`
	Subscriptions []workspaceSubscription      `json:"subscriptions"`
	APIRules      []workspaceAPIRule           `json:"apiRules"`
}

type workspaceSource struct {
	Type                  string `json:"sourceType"`
	SourcePath            string `json:"sourcePath"`
	SourceHandlerName     string `json:"sourceHandlerName"`
	DepsHandlerName       string `json:"depsHandlerName"`
	URL                   string `json:"url"`
	Repository            string `json:"repository"`
	Reference             string `json:"reference"`
	BaseDir               string `json:"baseDir"`
	CredentialsSecretName string `json:"credentialsSecretName"`
	CredentialsType       string `json:"credentialsType"`
}

// workspaceSubscription has the fields of both versions of the schema.
type workspaceSubscription struct {
	Name         string   `json:"name"`
	TypeMatching string   `json:"typeMatching"`
	Source       string   `json:"source"`
	Types        []string `json:"types"`

	Protocol string `json:"protocol"`
	Filter   struct {
		Dialect string `json:"dialect"`
		Filters []struct {
			EventSource workspaceFilter `json:"eventSource"`
			EventType   workspaceFilter `json:"eventType"`
		} `json:"filters"`
	} `json:"filter"`
}

type workspaceFilter struct {
	Property string `json:"property"`
	Type     string `json:"type"`
	Value    string `json:"value"`
}

type workspaceAPIRule struct {
	Name    string `json:"name"`
	Gateway string `json:"gateway"`
	Service struct {
		Host string `json:"host"`
		Port int64  `json:"port"`
	} `json:"service"`
	Rules []map[string]any `json:"rules"`
}

// isWorkspace reports whether a file is the config.yaml of a workspace. No manifest has such a source without a kind.
func isWorkspace(content []byte) bool {
	var found struct {
		APIVersion, Kind string
		Source           struct {
			Type string `json:"sourceType"`
		}
	}
	return yaml.Unmarshal(content, &found) == nil && found.Kind == "" && found.APIVersion == "" &&
		slices.Contains([]string{sourceInline, sourceGit}, found.Source.Type)
}

// expand returns the manifests that a workspace stands for, of the versions that its command line wrote, and what is left out. They are converted
// like all others.
func expand(file File) (manifests []byte, notes []string, err error) {
	var w workspace
	if len(file.Content) > maxObject {
		return nil, nil, fmt.Errorf("it has %d bytes, more than the %d of the largest object that a cluster stores", len(file.Content), maxObject)
	}
	if err := yaml.UnmarshalStrict(file.Content, &w); err != nil {
		return nil, nil, fmt.Errorf("it is the config.yaml of a workspace, and cannot be decoded: %s",
			strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: "))
	}
	objects, err := w.source(file)
	if err != nil {
		return nil, nil, err
	}
	for i := range w.Subscriptions {
		made, err := w.subscription(&w.Subscriptions[i])
		if err != nil {
			return nil, nil, fmt.Errorf("subscription %s: %w", w.Subscriptions[i].Name, err)
		}
		objects = append(objects, made)
	}
	for i := range w.APIRules {
		objects = append(objects, &unstructured.Unstructured{Object: w.apiRule(&w.APIRules[i])})
	}
	for _, object := range objects {
		_, text, err := manifest(object)
		if err != nil {
			return nil, nil, fmt.Errorf("write what it stands for: %w", err)
		}
		manifests = Append(manifests, text)
	}
	if len(w.RuntimeAnnotations) > 0 {
		notes = append(notes, "runtimeAnnotations: they are left out; add them to spec.annotations of the Function")
	}
	return manifests, notes, nil
}

// source returns the Function, and the GitRepository that it needs.
func (w *workspace) source(file File) ([]any, error) {
	fn := &v1alpha1.Function{}
	fn.APIVersion, fn.Kind = v1alpha1.GroupVersion.String(), kindFunction
	fn.Name, fn.Namespace, fn.Labels = w.Name, w.Namespace, w.Labels
	fn.Spec.Runtime, fn.Spec.RuntimeImageOverride, fn.Spec.Env = w.Runtime, w.RuntimeImageOverride, w.Env
	fn.Spec.Resources, fn.Spec.Labels = w.Resources, w.RuntimeLabels
	if w.Source.Type == sourceInline {
		var err error
		fn.Spec.Source, fn.Spec.Deps, err = w.inline(file)
		return []any{fn}, err
	}
	repository := &v1alpha1.GitRepository{}
	repository.APIVersion, repository.Kind = fn.APIVersion, kindGitRepository
	repository.Name, repository.Namespace = cmp.Or(w.Source.Repository, w.Name), w.Namespace
	repository.Spec.URL = w.Source.URL
	if secret := w.Source.CredentialsSecretName; secret != "" {
		repository.Spec.Auth = &v1alpha1.RepositoryAuth{Type: serverless.RepositoryAuthType(cmp.Or(w.Source.CredentialsType, "basic")), SecretName: secret}
	}
	fn.Spec.Type, fn.Spec.Source = sourceGit, repository.Name
	fn.Spec.Reference, fn.Spec.BaseDir = w.Source.Reference, w.Source.BaseDir
	return []any{fn, repository}, nil
}

// inline reads the handler and its dependencies. They have to lie in the folder of the config.yaml: another's config.yaml must not put a file of this
// machine into a manifest.
func (w *workspace) inline(file File) (handler, dependencies string, err error) {
	if file.Path == Input {
		return "", "", errors.New("its source is in files beside it: name the file instead of standard input")
	}
	l, err := languages.Of(serverless.Runtime(w.Runtime))
	if err != nil {
		return "", "", fmt.Errorf("runtime: %w", err)
	}
	folder := filepath.Dir(file.Path)
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", "", fmt.Errorf("open its folder: %w", err)
	}
	defer func() { _ = root.Close() }()
	if handler, err = w.read(root, folder, cmp.Or(w.Source.SourceHandlerName, l.Handler)); err != nil {
		return "", "", fmt.Errorf("source.sourceHandlerName: %w", err)
	}
	dependencies, err = w.read(root, folder, cmp.Or(w.Source.DepsHandlerName, l.Packages.Manifest))
	if err != nil && (w.Source.DepsHandlerName != "" || !errors.Is(err, os.ErrNotExist)) {
		return "", "", fmt.Errorf("source.depsHandlerName: %w", err)
	}
	return handler, dependencies, nil
}

func (w *workspace) read(root *os.Root, folder, name string) (string, error) {
	path := filepath.Join(w.Source.SourcePath, name)
	if filepath.IsAbs(path) {
		absolute, err := filepath.Abs(folder)
		if err == nil {
			path, err = filepath.Rel(absolute, path)
		}
		if err != nil {
			return "", err
		}
	}
	if !filepath.IsLocal(path) {
		return "", fmt.Errorf("%s is not in the folder of the file: copy it there, and set source.sourcePath to it", name)
	}
	opened, err := root.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = opened.Close() }()
	content, err := io.ReadAll(io.LimitReader(opened, maxObject+1))
	if err == nil && len(content) > maxObject {
		err = fmt.Errorf("%s is larger than the %d bytes that a cluster stores", name, maxObject)
	}
	return string(content), err
}

// subscription returns a Subscription that leads to the Function.
func (w *workspace) subscription(s *workspaceSubscription) (*v1alpha2.Subscription, error) {
	made := &v1alpha2.Subscription{}
	made.APIVersion, made.Kind = v1alpha2.GroupVersion.String(), "Subscription"
	made.Name, made.Namespace = cmp.Or(s.Name, w.Name), w.Namespace
	made.Spec.Sink = fmt.Sprintf("http://%s.%s.svc.cluster.local", w.Name, cmp.Or(w.Namespace, "default"))
	made.Spec.Source, made.Spec.Types, made.Spec.TypeMatching = s.Source, s.Types, v1alpha2.TypeMatching(s.TypeMatching)
	for _, filter := range s.Filter.Filters {
		for _, part := range []workspaceFilter{filter.EventSource, filter.EventType} {
			if part.Type != "" && part.Type != "exact" {
				return nil, fmt.Errorf("a filter is %s, and only exact ones can be written: name the types one by one", part.Type)
			}
		}
		if source := filter.EventSource.Value; made.Spec.Source != source && len(made.Spec.Types) > 0 {
			return nil, fmt.Errorf("its filters have the sources %q and %q: make a subscription for each", made.Spec.Source, source)
		}
		made.Spec.Source = filter.EventSource.Value
		made.Spec.Types = append(made.Spec.Types, filter.EventType.Value)
	}
	if len(s.Filter.Filters) > 0 && made.Spec.Source == "" {
		made.Spec.TypeMatching = v1alpha2.TypeMatchingExact // the types have the whole name
	}
	if len(made.Spec.Types) == 0 {
		return nil, errors.New("it has no types")
	}
	return made, nil
}

// apiRule returns an APIRule of v1beta1, which the command line wrote.
func (w *workspace) apiRule(rule *workspaceAPIRule) map[string]any {
	rules := make([]any, len(rule.Rules))
	for i, each := range rule.Rules {
		rules[i] = each
	}
	metadata := map[string]any{"name": cmp.Or(rule.Name, w.Name)}
	if w.Namespace != "" {
		metadata["namespace"] = w.Namespace
	}
	return map[string]any{
		"apiVersion": "gateway.kyma-project.io/v1beta1", "kind": "APIRule", "metadata": metadata,
		"spec": map[string]any{
			"gateway": cmp.Or(rule.Gateway, defaultGateway), "host": cmp.Or(rule.Service.Host, w.Name),
			"service": map[string]any{"name": w.Name, "port": cmp.Or(rule.Service.Port, 80)}, "rules": rules,
		},
	}
}
