package release

import (
	"context"
	"fmt"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/image"
)

// SourceServer makes the image of the server that the e2e tests fetch sources and packages from. All of it is
// Debian's; the tests bring the configuration and the content.
func (s Source) SourceServer(ctx context.Context) (image.Image, error) {
	layer, err := s.debian(ctx, "sources", "trixie", strings.Join(SourcePackages(), ","),
		// Who logs in over SSH is the user that the server runs as. Host keys are the tests' to make.
		`--customize-hook=echo git:x:1000:1000::/srv:/bin/sh >>"$1/etc/passwd"`, `--customize-hook=rm -f "$1"/etc/ssh/ssh_host_*`)
	return image.Image{Name: "source-server", Layers: []image.Layer{layer}}, err
}

// SourcePackages are Debian's, of which that server is made.
func SourcePackages() []string {
	return []string{"ca-certificates", "git", "openssh-server", "lighttpd", "lighttpd-mod-openssl"}
}

// Fixtures names the image that the e2e tests run.
func Fixtures(sourceServer string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: rouse-fixtures, namespace: kube-system}
data: {source-server: %q}
`, sourceServer)
}
