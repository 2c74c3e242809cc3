package conversion

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

// MaxDocument is how long a document may be: longer ones are in no cluster.
const MaxDocument = 3 << 20

const kind = "APIRule"

// ErrNotOldAPIRule is returned for a document that is no APIRule of an old version.
var ErrNotOldAPIRule = errors.New("no APIRule of version v1alpha1 or v1beta1")

// states are those of v2 for the codes of old versions.
var states = map[string]v2.State{"OK": v2.StateReady, "WARNING": v2.StateWarning, "ERROR": v2.StateError, "SKIPPED": v2.StateWarning}

// ConvertAPIRule reads one APIRule of an old version, in YAML or JSON, and writes it as v2, with all that cannot be written. One that was
// read from Kyma as a later version is accepted too, when an annotation keeps its old spec.
func ConvertAPIRule(document []byte) (*v2.APIRule, apirule.Problems, error) {
	old, err := decode(document)
	if err != nil {
		return nil, nil, err
	}
	c := converter{namespace: old.Namespace}
	made := &v2.APIRule{
		TypeMeta:   metav1.TypeMeta{APIVersion: v2.GroupVersion.String(), Kind: kind},
		ObjectMeta: metadata(&old.ObjectMeta),
		Spec: v2.APIRuleSpec{
			Hosts:      c.hosts(&old.Spec),
			Gateway:    c.gateway(old.Spec.Gateway),
			Service:    service(old.Spec.Service),
			CORSPolicy: c.corsPolicy(old.Spec.CORSPolicy),
			Timeout:    c.timeout(".spec.timeout", old.Spec.Timeout),
			Rules:      c.rules(old.Spec.Rules),
		},
		Status: v2.APIRuleStatus{
			LastProcessedTime: old.Status.LastProcessedTime,
			State:             states[old.Status.APIRuleStatus.Code],
			Description:       old.Status.APIRuleStatus.Description,
		},
	}
	return made, c.problems, nil
}

func decode(document []byte) (*oldAPIRule, error) {
	if len(document) > MaxDocument {
		return nil, fmt.Errorf("decode an APIRule: %d bytes are more than the %d of the largest", len(document), MaxDocument)
	}
	content, err := yaml.ToJSON(document)
	if err != nil {
		return nil, fmt.Errorf("decode an APIRule: %w", err)
	}
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(content, &head); err != nil {
		return nil, fmt.Errorf("decode an APIRule: %w", err)
	}
	kept, err := keptSpec(&head)
	if err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", head.APIVersion, head.Kind, err)
	}
	old := &oldAPIRule{}
	if kept == "" {
		if err := json.Unmarshal(content, old); err != nil {
			return nil, fmt.Errorf("decode an APIRule: %w", err)
		}
		return old, nil
	}
	old.ObjectMeta = head.ObjectMeta
	if err := json.Unmarshal([]byte(kept), &old.Spec); err != nil {
		return nil, fmt.Errorf("decode the annotation %s: %w", v2.AnnotationV1beta1Spec, err)
	}
	return old, nil
}

// keptSpec is the old spec in an annotation of a later version. It is empty when the object itself is of an old version.
func keptSpec(head *metav1.PartialObjectMetadata) (string, error) {
	group, version, _ := strings.Cut(head.APIVersion, "/")
	old := version == "v1alpha1" || version == "v1beta1"
	kept := head.Annotations[v2.AnnotationV1beta1Spec]
	switch {
	case group != v2.GroupVersion.Group, head.Kind != kind:
		return "", ErrNotOldAPIRule
	case old:
		return "", nil
	case kept == "", head.Annotations[v2.AnnotationOriginalVersion] != "v1beta1":
		return "", ErrNotOldAPIRule
	default:
		return kept, nil
	}
}

// metadata is what a user wrote of it.
func metadata(old *metav1.ObjectMeta) metav1.ObjectMeta {
	annotations := maps.Clone(old.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, v2.GroupVersion.Group+"/") || strings.HasPrefix(key, "kubectl.kubernetes.io/")
	})
	if len(annotations) == 0 {
		annotations = nil
	}
	return metav1.ObjectMeta{Name: old.Name, Namespace: old.Namespace, Labels: maps.Clone(old.Labels), Annotations: annotations}
}
