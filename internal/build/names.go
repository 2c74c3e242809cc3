package build

import (
	"fmt"
	"regexp"
	"strings"
)

// BaseRepositories is where a registry keeps copies of the runtimes' images, from which builds mount layers.
const BaseRepositories = "rouse-base"

var tagForm = regexp.MustCompile(`^[0-9a-f]{64}(-[0-9a-f]{8})?$`)

// IsTag tells whether a tag is one of ours: what Tag returns, perhaps with the fingerprint of a wish to build again.
func IsTag(tag string) bool { return tagForm.MatchString(tag) }

// CopyTag is the tag of a copy of a runtime's image, made of the tag or the digest of the original. A copy holds one
// platform only.
func CopyTag(identifier, architecture string) string {
	return fmt.Sprintf("%.100s-%s", strings.ReplaceAll(identifier, ":", "-"), architecture)
}

// IsCopyOf tells whether a tag is that of a copy, for any platform.
func IsCopyOf(tag, identifier string) bool {
	end := strings.LastIndex(tag, "-")
	return end >= 0 && tag[:end+1] == CopyTag(identifier, "")
}
