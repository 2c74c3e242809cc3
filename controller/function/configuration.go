package function

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/controller/function/resources"
)

// content is a ConfigMap or a Secret as far as pods see it. Nil is one that does
// not exist.
type content struct {
	// salt is secret where the values are: a user who may read pods but no Secrets
	// must not be able to find a short value by trying.
	salt   types.UID
	values map[string][]byte
}

// readConfiguration finds out what the pods' ConfigMaps and Secrets hold, if
// the user wants the pods to follow them.
func (r *Reconciler) readConfiguration(ctx context.Context, s *scope) error {
	if !followsConfiguration(s.fn) {
		return nil
	}
	references := s.references()
	contents := make(map[referent]*content, len(references))
	for _, ref := range references {
		if _, ok := contents[ref.referent]; ok {
			continue
		}
		found, err := r.readContent(ctx, s.fn.Namespace, ref.referent)
		if err != nil {
			return err
		}
		contents[ref.referent] = found
	}
	hash, complete := configurationHash(references, contents)
	if !complete && s.deployment != nil {
		// A pod without them would not start, and they may be just being replaced.
		if present := s.deployment.Spec.Template.Annotations[resources.AnnotationConfiguration]; present != "" {
			hash = present
		}
	}
	s.configuration = hash
	return nil
}

// readContent reads past the cache, which holds no data of ConfigMaps and Secrets.
func (r *Reconciler) readContent(ctx context.Context, namespace string, of referent) (*content, error) {
	key := client.ObjectKey{Namespace: namespace, Name: of.name}
	found := &content{}
	var err error
	switch of.kind {
	case kindSecret:
		secret := &corev1.Secret{}
		err = r.live.Get(ctx, key, secret)
		found.salt, found.values = secret.UID, secret.Data
	default:
		config := &corev1.ConfigMap{}
		err = r.live.Get(ctx, key, config)
		found.values = maps.Clone(config.BinaryData)
		if found.values == nil {
			found.values = make(map[string][]byte, len(config.Data))
		}
		for name, value := range config.Data {
			found.values[name] = []byte(value)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %q: %w", of.kind, key, err)
	}
	return found, nil
}

// configurationHash is a hash of all that the references lead to. Complete is
// false when something is missing without which a pod does not start.
func configurationHash(references []reference, contents map[referent]*content) (sum string, complete bool) {
	complete = true
	digest := sha256.New()
	for _, ref := range references {
		found := contents[ref.referent]
		write(digest, ref.kind, ref.name, ref.key)
		switch {
		case found == nil:
			complete = complete && ref.optional
			write(digest, "missing")
		case ref.key == "":
			write(digest, string(found.salt))
			for _, key := range slices.Sorted(maps.Keys(found.values)) {
				write(digest, key, string(found.values[key]))
			}
		default:
			value, ok := found.values[ref.key]
			complete = complete && (ok || ref.optional)
			write(digest, string(found.salt), strconv.FormatBool(ok), string(value))
		}
	}
	return hex.EncodeToString(digest.Sum(nil)[:8]), complete
}

// write separates the parts, so that they cannot be mistaken for each other.
func write(digest hash.Hash, parts ...string) {
	for _, part := range parts {
		digest.Write(fmt.Appendf(nil, "%d:%s", len(part), part))
	}
}
