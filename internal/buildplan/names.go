package buildplan

import (
	"fmt"
	"regexp"
	"strings"
)

// BaseRepositories is where a registry keeps copies of the runtimes' images, from which builds mount layers.
const BaseRepositories = "rouse-base"

var (
	tagForm = regexp.MustCompile(`^[0-9a-f]{64}(-[0-9a-f]{8})?$`)
	hexForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// IsTag reports whether a tag is one of ours: what Tag returns, perhaps with the fingerprint of a wish to build again.
func IsTag(tag string) bool { return tagForm.MatchString(tag) }

// CopyTag is the tag of a copy of a runtime's image: the tag or the digest of the original, which shows whether the copy
// is still needed, and the digest of the copied manifest, which is of one platform. No build reads by it: builds ask for
// the digest, and the chart's registry takes no other manifest under the tag.
func CopyTag(identifier, digest string) string {
	return fmt.Sprintf("%.60s-%s", strings.ReplaceAll(identifier, ":", "-"), strings.TrimPrefix(digest, "sha256:"))
}

// IsCopyOf reports whether a tag is that of a copy, for any platform.
func IsCopyOf(tag, identifier string) bool {
	end := strings.LastIndex(tag, "-")
	return end >= 0 && tag[:end+1] == CopyTag(identifier, "")
}

// CopyDigest is the digest that the tag of a copy promises, and whether it promises one.
func CopyDigest(tag string) (string, bool) {
	hex := tag[strings.LastIndex(tag, "-")+1:]
	return "sha256:" + hex, len(hex) < len(tag) && hexForm.MatchString(hex)
}
