package buildplan

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/rouse-run/rouse/runtimes/language"
)

// format is part of every tag. It changes when the builder makes different images from the same plan.
const format = "2"

// Plan describes an image to build. It contains no credentials: they are in separate files.
type Plan struct {
	// Function is namespace/name, for messages.
	Function string `json:"function"`
	// Owner is the UID of the Function, so that Functions never share images, not even a later Function of the same
	// name.
	Owner string `json:"owner,omitempty"`
	// Runtime is the name of the runtime, such as nodejs22.
	Runtime string `json:"runtime"`
	// Base is the reference of the image that runs or compiles Functions of the runtime. A digest in it is verified.
	Base string `json:"base"`
	// OwnBase means that the Function chose Base, not the installation, so that its layers are pushed only into the
	// Function's own repository.
	OwnBase bool `json:"ownBase,omitempty"`
	// Source is the handler's source if it has to be in the image. It is empty when the source comes from Git or
	// travels in the pod's environment.
	Source string `json:"source,omitempty"`
	// Dependencies is the manifest of the package manager. It is empty with Git, where the repository contains the
	// manifest.
	Dependencies string `json:"dependencies,omitempty"`
	// Files are the files of a source that is a folder, by their paths. They take precedence over Source and
	// Dependencies. FilesDigest identifies them; a plan that is only compared has no Files.
	Files       map[string][]byte `json:"files,omitempty"`
	FilesDigest string            `json:"filesDigest,omitempty"`
	// Git is the origin of the source, nil for inline source.
	Git *Git `json:"git,omitempty"`
	// Target is the reference to which the image is pushed, host/repository:tag. It is empty for a plan that is only
	// prepared in a directory.
	Target string `json:"target,omitempty"`
	// Insecure means that Target's registry speaks plain HTTP.
	Insecure bool `json:"insecure,omitempty"`
	// MaxSize bounds the layer, in bytes before compression; 0: no bound.
	MaxSize int64 `json:"maxSize,omitempty"`
}

// Git is a commit in a repository.
type Git struct {
	URL string `json:"url"`
	// Reference is the branch, tag or commit that the user wrote, for servers that do not serve single commits.
	Reference string `json:"reference"`
	Commit    string `json:"commit"`
	// BaseDir is the directory of the Function in the repository.
	BaseDir string `json:"baseDir"`
	// Auth is "basic", "key" or empty.
	Auth string `json:"auth,omitempty"`
}

// Tag returns the tag of a plan's image: a SHA-256 in hexadecimal digits of its owner and all its inputs.
func Tag(plan Plan) string {
	parts := []string{format, plan.Owner, plan.Runtime, plan.Base, plan.Source, strings.TrimSpace(plan.Dependencies)}
	if plan.Git != nil {
		parts = append(parts, plan.Git.URL, plan.Git.Commit, CleanDir(plan.Git.BaseDir))
	}
	if plan.FilesDigest != "" {
		parts = append(parts, "files", plan.FilesDigest)
	}
	hash := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// CleanDir returns a baseDir without surrounding slashes and spaces. The root of the repository is empty.
func CleanDir(dir string) string {
	return strings.TrimPrefix(strings.Trim(dir, "/ "), "./")
}

// plainSize is the size in bytes above which EncodePlan compresses.
const plainSize = 64 << 10

// EncodePlan returns the content of PlanFile. A large plan is compressed.
func EncodePlan(plan Plan) ([]byte, error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("encode build plan: %w", err)
	}
	if len(text) <= plainSize {
		return text, nil
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err = writer.Write(text)
	if closeErr := writer.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("compress build plan: %w", err)
	}
	return packed.Bytes(), nil
}

// maxPlan is larger than the source and dependencies of any Function.
const maxPlan = 64 << 20

// DecodePlan decodes the content of PlanFile.
func DecodePlan(text []byte) (Plan, error) {
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		reader, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			return Plan{}, fmt.Errorf("decompress build plan: %w", err)
		}
		if text, err = io.ReadAll(io.LimitReader(reader, maxPlan)); err != nil {
			return Plan{}, fmt.Errorf("decompress build plan: %w", err)
		}
	}
	var plan Plan
	if err := json.Unmarshal(text, &plan); err != nil {
		return Plan{}, fmt.Errorf("decode build plan: %w", err)
	}
	return plan, nil
}

// BaseRepositories is the repository prefix under which a registry holds copies of the runtimes' images, from which
// builds mount layers.
const BaseRepositories = "rouse-base"

var (
	tagForm = regexp.MustCompile(`^[0-9a-f]{64}(-[0-9a-f]{8})?$`)
	hexForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// IsTag reports whether Tag returned a tag, possibly with the suffix of a requested rebuild.
func IsTag(tag string) bool { return tagForm.MatchString(tag) }

// CopyTag returns the tag of a copy of a runtime's image: the tag or the digest of the original, which shows whether
// the copy is still needed, and the digest of the copied manifest, which is of one platform. Builds do not read by the
// tag but by the digest, and the chart's registry accepts no other manifest under the tag.
func CopyTag(identifier, digest string) string {
	return fmt.Sprintf("%.60s-%s", strings.ReplaceAll(identifier, ":", "-"), strings.TrimPrefix(digest, "sha256:"))
}

// IsCopyOf reports whether a tag is the tag of a copy, for any platform.
func IsCopyOf(tag, identifier string) bool {
	end := strings.LastIndex(tag, "-")
	return end >= 0 && tag[:end+1] == CopyTag(identifier, "")
}

// CopyDigest returns the digest in the tag of a copy, if there is one.
func CopyDigest(tag string) (string, bool) {
	hex := tag[strings.LastIndex(tag, "-")+1:]
	return "sha256:" + hex, len(hex) < len(tag) && hexForm.MatchString(hex)
}

// Result is the outcome of a plan. The builder writes it as its termination message.
type Result struct {
	// Digest is the digest of the pushed image, sha256:...; it is empty when the build failed.
	Digest string `json:"digest,omitempty"`
	// Size is the size of the layer in the registry in bytes.
	Size int64 `json:"size,omitempty"`
	// Reason is empty when the build succeeded.
	Reason language.Reason `json:"reason,omitempty"`
	// Message describes the failure and its remedy.
	Message string `json:"message,omitempty"`
	// Log contains the last lines of the package manager, when it failed.
	Log string `json:"log,omitempty"`
}

// maxResult is less than the 4096 bytes to which Kubernetes truncates a termination message.
const maxResult = 4000

// EncodeResult returns the termination message. It truncates the beginning of a log that is too long.
func EncodeResult(result Result) ([]byte, error) {
	for {
		text, err := json.Marshal(result)
		if err != nil {
			return nil, fmt.Errorf("encode build result: %w", err)
		}
		excess := len(text) - maxResult
		if excess <= 0 {
			return text, nil
		}
		if result.Log == "" {
			result.Message = cut(result.Message, max(len(result.Message)-excess, 0))
			continue
		}
		result.Log = tail(result.Log, max(len(result.Log)-excess, 0))
	}
}

// DecodeResult decodes a termination message.
func DecodeResult(text string) (Result, error) {
	var result Result
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		return Result{}, fmt.Errorf("decode build result: %w", err)
	}
	return result, nil
}

// cut returns at most the first size bytes, in whole characters.
func cut(text string, size int) string {
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

// tail returns at most the last size bytes, in whole lines where possible.
func tail(text string, size int) string {
	start := len(text) - size
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	text = text[start:]
	if _, rest, found := strings.Cut(text, "\n"); found {
		return rest
	}
	return text
}

// The paths of the builder's files, where the controller mounts them. Each Secret is mounted into the one container
// that needs it: GitDir where the source is fetched, PackagesDir where packages are installed, and RegistryDir where
// the image is pushed.
const (
	// BinaryDir is an empty volume into which the builder copies itself, so that the container that installs, which
	// is the runtime's image, can run it.
	BinaryDir = "/rouse/bin"
	// InputDir is a Secret with PlanFile and, where the installation has one, CAFile. It contains no credentials.
	InputDir = "/rouse/input"
	PlanFile = "plan.json"
	// CAFile contains the PEM certificates that are trusted besides those of the image.
	CAFile = "ca.crt"
	// GitDir is the Secret of spec.source.gitRepository.auth, one file for each key.
	GitDir = "/rouse/git"
	// SourceDir is an empty volume with the source of a repository.
	SourceDir = "/rouse/source"
	// PackagesDir is the Secret serverless-package-registry-config: settings of package managers.
	PackagesDir = "/rouse/packages"
	// RegistryDir is a Secret with the file config.json of Docker: credentials of the registries.
	RegistryDir = "/rouse/registry"
	// HandoverDir is an empty volume with HandoverSocket, through which the finished layer is sent to the container
	// that pushes, which shares nothing else.
	HandoverDir    = "/rouse/handover"
	HandoverSocket = "layer.sock"
	// WorkDir is an empty volume of a single container for all other files.
	WorkDir = "/rouse/work"
)
