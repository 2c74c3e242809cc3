package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/e2e/framework"
)

// registry is the chart's registry, forwarded to a port of this machine.
type registry struct{ address string }

func openRegistry(ctx context.Context, cluster *framework.Cluster) (*registry, error) {
	pods, err := cluster.PodsOf(ctx, "registry")
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if framework.Ready(&pods[i]) {
			port, err := cluster.Forward(ctx, &pods[i], 5000)
			return &registry{address: fmt.Sprintf("http://127.0.0.1:%d", port)}, err
		}
	}
	return nil, errors.New("the chart's registry is not ready")
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

// do sends one request and returns the status and the beginning of the response.
func (r *registry) do(ctx context.Context, as login, method, path string, body []byte) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.address+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.SetBasicAuth(as.Username, as.Password)
	request.Header.Set("Accept", manifestType)
	if body != nil {
		request.Header.Set("Content-Type", manifestType)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, text, err
}

// split returns the repository and digest of an image's name.
func split(image string) (repository, digest string) {
	_, path, _ := strings.Cut(image, "/")
	repository, digest, _ = strings.Cut(path, "@")
	return repository, digest
}

// asAttacker sends a request with the attacker's account, which has to be rejected with 403.
func asAttacker(method string, path func(ctx context.Context, s *stage) (string, []byte, error)) func(context.Context, *stage) (string, error) {
	return func(ctx context.Context, s *stage) (string, error) {
		account, err := s.login(ctx, s.attacker, "own")
		if err != nil {
			return "", err
		}
		where, body, err := path(ctx, s)
		if err != nil {
			return "", err
		}
		status, answer, err := s.registry.do(ctx, account, method, where, body)
		if err != nil {
			return "", err
		}
		if status != http.StatusForbidden {
			return "", succeeded("the registry answers %d: %s", status, answer)
		}
		return fmt.Sprintf("the registry's proxy: %d", status), nil
	}
}

// victimPath returns a path below the repository of the victim's Function.
func victimPath(path string, body []byte) func(context.Context, *stage) (string, []byte, error) {
	return func(_ context.Context, s *stage) (string, []byte, error) {
		repository, digest := split(s.victimImage)
		return "/v2/" + repository + "/" + strings.ReplaceAll(path, "DIGEST", digest), body, nil
	}
}

// baseCopyPath returns the path of a base image's copy, which the controller's account can find.
func baseCopyPath(body []byte) func(context.Context, *stage) (string, []byte, error) {
	return func(ctx context.Context, s *stage) (string, []byte, error) {
		admin, err := adminOf(ctx, s)
		if err != nil {
			return "", nil, err
		}
		var catalogue struct{ Repositories []string }
		if err := s.registry.json(ctx, admin, "/v2/_catalog?n=1000", &catalogue); err != nil {
			return "", nil, err
		}
		for _, repository := range catalogue.Repositories {
			if !strings.HasPrefix(repository, "rouse-base/") {
				continue
			}
			var listed struct{ Tags []string }
			if err := s.registry.json(ctx, admin, "/v2/"+repository+"/tags/list", &listed); err != nil {
				return "", nil, err
			}
			if len(listed.Tags) > 0 {
				return "/v2/" + repository + "/manifests/" + listed.Tags[0], body, nil
			}
		}
		return "", nil, errors.New("no base was copied")
	}
}

func (r *registry) json(ctx context.Context, as login, path string, into any) error {
	status, text, err := r.do(ctx, as, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("GET %s: %d %s", path, status, text)
	}
	return json.Unmarshal(text, into)
}

// adminOf returns the controller's account, which no tenant can read.
func adminOf(ctx context.Context, s *stage) (login, error) {
	secret := &corev1.Secret{}
	if err := s.cluster.Get(ctx, keyOf(framework.System, "rouse-registry"), secret); err != nil {
		return login{}, err
	}
	return login{Username: string(secret.Data["username"]), Password: string(secret.Data["password"])}, nil
}

func registryAttacks() []attack {
	manifest := []byte(`{"schemaVersion": 2, "mediaType": "` + manifestType + `", "layers": []}`)
	return []attack{
		{"pull another's image with an account of one's own", asAttacker(http.MethodGet, victimPath("manifests/DIGEST", nil))},
		{"list another's tags", asAttacker(http.MethodGet, victimPath("tags/list", nil))},
		{"push a tag into another's repository", asAttacker(http.MethodPut, victimPath("manifests/latest", manifest))},
		{"upload into another's repository", asAttacker(http.MethodPost, victimPath("blobs/uploads/", nil))},
		{"delete another's image", asAttacker(http.MethodDelete, victimPath("manifests/DIGEST", nil))},
		{"list everybody's repositories", asAttacker(http.MethodGet, func(context.Context, *stage) (string, []byte, error) { return "/v2/_catalog", nil, nil })},
		{"mount a layer of another's image", mountForeignLayer},
		{"replace the copy of a base", asAttacker(http.MethodPut, baseCopyPath(manifest))},
		{"delete the copy of a base", asAttacker(http.MethodDelete, baseCopyPath(nil))},
		{"reach the registry with a guessed password", guessPassword},
	}
}

// mountForeignLayer uses the digest of a layer. A mount would add the layer to the attacker's repository.
func mountForeignLayer(ctx context.Context, s *stage) (string, error) {
	theirs, err := s.login(ctx, s.victim, "prod-price")
	if err != nil {
		return "", err
	}
	own, err := s.login(ctx, s.attacker, "own")
	if err != nil {
		return "", err
	}
	repository, digest := split(s.victimImage)
	var image struct{ Layers []struct{ Digest string } }
	if err := s.registry.json(ctx, theirs, "/v2/"+repository+"/manifests/"+digest, &image); err != nil {
		return "", err
	}
	layer := image.Layers[len(image.Layers)-1].Digest
	ownImage, err := s.imageOf(ctx, s.attacker, "own")
	if err != nil {
		return "", err
	}
	mine, _ := split(ownImage)
	status, answer, err := s.registry.do(ctx, own, http.MethodPost, "/v2/"+mine+"/blobs/uploads/?mount="+layer+"&from="+repository, nil)
	if err != nil {
		return "", err
	}
	if status != http.StatusAccepted {
		return "", succeeded("the registry answers %d: %s", status, answer)
	}
	status, _, err = s.registry.do(ctx, own, http.MethodGet, "/v2/"+mine+"/blobs/"+layer, nil)
	if err == nil && status != http.StatusNotFound {
		err = succeeded("the layer is in %s: %d", mine, status)
	}
	return "the registry's proxy: nothing is mounted", err
}

func guessPassword(ctx context.Context, s *stage) (string, error) {
	account, err := s.login(ctx, s.victim, "prod-price")
	if err != nil {
		return "", err
	}
	repository, digest := split(s.victimImage)
	for _, guess := range []login{{}, {account.Username, ""}, {account.Username, "guessed"}, {"rouse", ""}, {"rouse", account.Password}} {
		status, _, err := s.registry.do(ctx, guess, http.MethodGet, "/v2/"+repository+"/manifests/"+digest, nil)
		if err != nil {
			return "", err
		}
		if status != http.StatusUnauthorized {
			return "", succeeded("%q gets %d", guess.Username, status)
		}
	}
	return "the registry's proxy: 401", nil
}
