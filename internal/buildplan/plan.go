package buildplan

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// format is part of every tag. It changes when the builder makes other images of the same plan.
const format = "2"

// Plan says what to build. It carries no secrets: those are files beside it.
type Plan struct {
	// Function is namespace/name, for messages.
	Function string `json:"function"`
	// Owner is the UID of the Function: no image is another's, not even that of a Function of the same name later.
	Owner string `json:"owner,omitempty"`
	// Runtime is the name of the runtime, such as nodejs22.
	Runtime string `json:"runtime"`
	// Base is the reference of the image that runs Functions of the runtime, or compiles them. With a digest it is verified by that.
	Base string `json:"base"`
	// OwnBase means that the Function chose Base, not the installation, so that its layers go nowhere but into the
	// Function's own repository.
	OwnBase bool `json:"ownBase,omitempty"`
	// Source is the handler when it has to be in the image. It is empty when the source comes from Git or
	// travels in the pod's environment.
	Source string `json:"source,omitempty"`
	// Dependencies is the manifest of the package manager. With Git it is empty: the repository has its own.
	Dependencies string `json:"dependencies,omitempty"`
	// Git is where the source comes from, nil for inline source.
	Git *Git `json:"git,omitempty"`
	// Target is where the image is pushed, host/repository:tag. It is empty for a plan that is only prepared
	// in a directory.
	Target string `json:"target,omitempty"`
	// Insecure means that Target's registry speaks plain HTTP.
	Insecure bool `json:"insecure,omitempty"`
	// MaxSize bounds the layer, in bytes before compression; 0: no bound.
	MaxSize int64 `json:"maxSize,omitempty"`
}

// Git is a commit in a repository.
type Git struct {
	URL string `json:"url"`
	// Reference is the branch, tag or commit that the user wrote. It helps where a server does not give out
	// single commits.
	Reference string `json:"reference"`
	Commit    string `json:"commit"`
	// BaseDir is the directory of the Function in the repository.
	BaseDir string `json:"baseDir"`
	// Auth is "basic", "key" or empty.
	Auth string `json:"auth,omitempty"`
}

// Tag names the image of a plan by whose it is and by everything that it is made of: a SHA-256 in hexadecimal digits.
func Tag(plan Plan) string {
	parts := []string{format, plan.Owner, plan.Runtime, plan.Base, plan.Source, strings.TrimSpace(plan.Dependencies)}
	if plan.Git != nil {
		parts = append(parts, plan.Git.URL, plan.Git.Commit, CleanDir(plan.Git.BaseDir))
	}
	hash := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// CleanDir is a baseDir without the slashes and spaces around it; the root of the repository is empty.
func CleanDir(dir string) string {
	return strings.TrimPrefix(strings.Trim(dir, "/ "), "./")
}

// plainSize is up to which size a plan stays readable.
const plainSize = 64 << 10

// EncodePlan is the content of PlanFile. A large plan is compressed.
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

// maxPlan is more than any Function has source and dependencies.
const maxPlan = 64 << 20

// DecodePlan reads the content of PlanFile.
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
