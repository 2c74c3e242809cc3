module github.com/rouse-run/rouse/e2e/cluster

go 1.26.0

require (
	github.com/google/go-containerregistry v0.22.1
	github.com/spf13/pflag v1.0.10
	github.com/stretchr/testify v1.12.1
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.49.0
	sigs.k8s.io/yaml v1.6.0
)

require gotest.tools/v3 v3.5.2 // indirect

require (
	github.com/docker/cli v29.7.2+incompatible // indirect
	github.com/docker/docker-credential-helpers v0.9.3 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	github.com/rouse-run/rouse/tools/pack v0.0.0
	github.com/sirupsen/logrus v1.9.4 // indirect
	go.yaml.in/yaml/v2 v2.4.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/rouse-run/rouse/tools/pack => ../../tools/pack
