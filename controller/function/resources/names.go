package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/workload"
)

// maxName is the longest name of a Service, a label value, a volume and an HPA.
const maxName = 63

// hpaPrefix is what KEDA puts before a ScaledObject's name.
const hpaPrefix = "keda-hpa-"

// hpaName is the name that the ScaledObject asks KEDA to give its HPA, or empty
// when KEDA's own choice is short enough.
func hpaName(function string) string {
	if len(hpaPrefix)+len(function) <= maxName {
		return ""
	}
	return shortened(hpaPrefix, function)
}

// volumeName is the volume of a mounted Secret: its name where that can be one. What begins as volumes of bindings do
// is for those who bind: they sort and remove by that.
func volumeName(secret string) string {
	if len(validation.IsDNS1123Label(secret)) == 0 && !isReservedVolume(secret) {
		return secret
	}
	sum := sha256.Sum256([]byte(secret))
	return "secret-" + hex.EncodeToString(sum[:8])
}

func isReservedVolume(name string) bool {
	switch name {
	case tmpVolume, tokenVolume, functionVolume, binVolume, sourceVolume, fetchVolume, installVolume, pushVolume, handoverVolume, inputVolume,
		registryVolume, gitVolume, packagesVolume, sourcesVolume, localVolume, kymaPackagesVolume:
		return true
	default:
		return strings.HasPrefix(name, workload.BindingVolumePrefix)
	}
}

// shortened is prefix, as much of name as fits, and a hash of the whole name.
func shortened(prefix, name string) string {
	sum := sha256.Sum256([]byte(name))
	suffix := "-" + hex.EncodeToString(sum[:4])
	return prefix + name[:maxName-len(prefix)-len(suffix)] + suffix
}

// RegistrySecretName is the Secret with the credentials for a Function's images.
func RegistrySecretName(function string) string { return "rouse-registry-" + function }

// JobName is the Job, and its Secret, of the build with this identity.
func JobName(fn *v1alpha2.Function, id string) string {
	suffix := "-build-" + id
	name := fn.Name
	if most := maxName - len(suffix); len(name) > most {
		sum := sha256.Sum256([]byte(name))
		hash := "-" + hex.EncodeToString(sum[:4])
		name = name[:most-len(hash)] + hash
	}
	return name + suffix
}

// PreparationName is the Secret for pods that install what the plan of this
// identity says.
func PreparationName(fn *v1alpha2.Function, id string) string { return fn.Name + "-prepare-" + id }
