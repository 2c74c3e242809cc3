package conversion

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Checker compares the cluster's definitions with those of the release. It is a Runnable of the manager.
type Checker struct {
	definitions []Definition
	reader      client.Reader
	log         logr.Logger
	unreadable  *prometheus.GaugeVec
}

// SetupStoredVersions adds the check to a manager. files are the CustomResourceDefinitions of the release, as YAML.
func SetupStoredVersions(manager ctrl.Manager, registerer prometheus.Registerer, files [][]byte) error {
	definitions, err := Definitions(files)
	if err != nil {
		return err
	}
	checker := NewChecker(definitions, manager.GetAPIReader(), registerer, manager.GetLogger().WithName("stored-versions"))
	if err := manager.Add(checker); err != nil {
		return fmt.Errorf("set up the check of stored versions: %w", err)
	}
	return nil
}

// NewChecker returns a Checker.
func NewChecker(definitions []Definition, reader client.Reader, registerer prometheus.Registerer, log logr.Logger) *Checker {
	unreadable := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "rouse_controller_unknown_stored_versions",
		Help: "Versions in which objects of a CustomResourceDefinition may be stored and which this release does not have.",
	}, []string{"crd"})
	registerer.MustRegister(unreadable)
	return &Checker{definitions: definitions, reader: reader, log: log, unreadable: unreadable}
}

// Definitions decodes CustomResourceDefinitions in YAML.
func Definitions(files [][]byte) ([]Definition, error) {
	found := make([]Definition, len(files))
	for i, file := range files {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(file, crd); err != nil {
			return nil, fmt.Errorf("decode a CustomResourceDefinition: %w", err)
		}
		found[i].Name = crd.Name
		for j := range crd.Spec.Versions {
			version := &crd.Spec.Versions[j]
			found[i].Versions = append(found[i].Versions, version.Name)
			if version.Storage {
				found[i].Storage = version.Name
			}
		}
	}
	return found, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: one replica reports the result.
func (*Checker) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable. It never fails.
func (c *Checker) Start(ctx context.Context) error {
	for _, definition := range c.definitions {
		stored, err := c.stored(ctx, definition.Name)
		if err != nil {
			c.log.Error(err, "cannot read the stored versions", "crd", definition.Name)
			continue
		}
		c.unreadable.WithLabelValues(definition.Name).Set(float64(len(definition.Leaving(stored))))
		if err := definition.Check(stored); err != nil {
			c.log.Error(err, "objects may be stored in a version that this release does not have", "crd", definition.Name)
		}
	}
	return nil
}

// stored returns the versions in which objects may be stored; none when there is no such definition.
func (c *Checker) stored(ctx context.Context, name string) ([]string, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	err := c.reader.Get(ctx, types.NamespacedName{Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	stored, _, err := unstructured.NestedStringSlice(object.Object, "status", "storedVersions")
	if err != nil {
		return nil, fmt.Errorf("decode CustomResourceDefinition %s: %w", name, err)
	}
	return stored, nil
}

// Definition holds the versions of a CustomResourceDefinition.
type Definition struct {
	// Name is the full name, such as functions.serverless.kyma-project.io.
	Name string
	// Versions lists its versions, and Storage is the one in which objects are stored.
	Versions []string
	Storage  string
}

// Leaving returns the versions in which objects may be stored and that the definition lacks.
func (d Definition) Leaving(stored []string) []string {
	var leaving []string
	for _, version := range stored {
		if !slices.Contains(d.Versions, version) {
			leaving = append(leaving, version)
		}
	}
	return leaving
}

// Check returns an error when objects may be stored in a version that the definition lacks. stored is
// status.storedVersions of the definition in the cluster: every version that was ever the storage version, until it is
// removed there.
func (d Definition) Check(stored []string) error {
	leaving := d.Leaving(stored)
	if len(leaving) == 0 {
		return nil
	}
	resource, _, _ := strings.Cut(d.Name, ".")
	return fmt.Errorf("CustomResourceDefinition %s: its objects may be stored as %s, which this release does not have. With the release "+
		"that is installed, write all of them once more, as in kubectl get %s -A -o json | kubectl replace -f -, then "+
		"kubectl patch crd %s --subresource=status --type=merge -p '{\"status\":{\"storedVersions\":[%q]}}', and upgrade again. "+
		"See docs/convert.md", d.Name, strings.Join(leaving, ", "), d.qualified(resource), d.Name, d.Storage)
}

// qualified adds version and group to the resource, so that kubectl requests the current storage version.
func (d Definition) qualified(resource string) string {
	return strings.Replace(d.Name, resource+".", resource+"."+d.Storage+".", 1)
}
