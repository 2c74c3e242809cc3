package registryproxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/rouse-run/rouse/internal/fair"
)

const (
	// maxManifest is what the specification asks registries to take.
	maxManifest = 4 << 20
	// maxValues and maxDepth bound what the registry makes of one when it reads it: an empty object of two bytes becomes a layer's
	// description of a hundred. An image of a hundred layers has a thousand values.
	maxValues = 20_000
	maxDepth  = 32
	chunk     = 64 << 10
)

var (
	errManifestMemory = errors.New("too many manifests of this namespace arrive at a time")
	errManifestSize   = errors.New("the manifest has more than 4 MiB")
	errManifestForm   = errors.New("the manifest has more than 20000 values, or they are nested too deeply")
	errManifestOther  = errors.New("the manifest is not the one that the tag of the copy names")
)

// manifest is one that has arrived, in parts that the share has paid for.
type manifest struct {
	parts [][]byte
	size  int64
	sum   string
}

// readManifest reads a manifest as the share has memory for it. What was acquired is to be released, also after an error.
func readManifest(from io.Reader, share *fair.Share) (found manifest, acquired int64, err error) {
	sum, shape := sha256.New(), fair.JSONCounter{Limits: fair.JSONLimits{Values: maxValues, Depth: maxDepth}}
	for {
		if share.Acquire(chunk, chunk) < chunk {
			return found, acquired, errManifestMemory
		}
		acquired += chunk
		part := make([]byte, chunk)
		n, err := io.ReadFull(from, part)
		part = part[:n]
		_, _ = sum.Write(part) // a hash takes everything
		found.parts, found.size = append(found.parts, part), found.size+int64(n)
		switch {
		case found.size > maxManifest:
			return found, acquired, errManifestSize
		case !shape.Add(part):
			return found, acquired, errManifestForm
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			found.sum = "sha256:" + hex.EncodeToString(sum.Sum(nil))
			return found, acquired, nil
		case err != nil:
			return found, acquired, err
		}
	}
}

// body reads the parts one after the other.
func (m manifest) body() io.ReadCloser {
	var readers []io.Reader
	for _, part := range m.parts {
		readers = append(readers, bytes.NewReader(part))
	}
	return io.NopCloser(io.MultiReader(readers...))
}

// takeManifest reads the manifest that a request pushes, and has the request go on with it. It answers and is false when the manifest
// may not be sent on. release gives its memory back.
func (p *Proxy) takeManifest(w http.ResponseWriter, r *http.Request, account, digest string) (release func(), ok bool) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(p.budgets.limits.manifestTimeout)) // else it has as long as a layer
	share := p.budgets.memory.Share(account)
	found, acquired, err := readManifest(r.Body, share)
	release = func() { share.Release(acquired) }
	if err == nil && digest != "" && found.sum != digest {
		err = errManifestOther
	}
	if err != nil {
		p.refuseManifest(w, err)
		return release, false
	}
	r.Body, r.ContentLength, r.TransferEncoding = found.body(), found.size, nil
	return release, true
}

func (p *Proxy) refuseManifest(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errManifestMemory):
		p.limit(w, err.Error())
	case errors.Is(err, errSpent):
		p.limit(w, spentText)
	case errors.Is(err, errManifestSize):
		p.refuse(w, http.StatusRequestEntityTooLarge, "SIZE_INVALID", err.Error())
	case errors.Is(err, errManifestForm):
		p.refuse(w, http.StatusBadRequest, "MANIFEST_INVALID", err.Error())
	case errors.Is(err, errManifestOther):
		p.refuse(w, http.StatusForbidden, "DENIED", err.Error())
	default:
		p.refuse(w, http.StatusBadRequest, "MANIFEST_INVALID", "the manifest did not arrive whole and in time")
	}
}
