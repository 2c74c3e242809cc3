package doors

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/door"
)

// application takes a request of one of Kyma's applications. Its answers are those of Kyma's gateway.
func (v *visit) application(w http.ResponseWriter, r *http.Request) {
	base := "/" + v.at.Application
	switch path := r.URL.Path; {
	case path == base+"/v1/events" && r.Method == http.MethodPost, path == base+"/v1/events/subscribed" && r.Method == http.MethodGet:
		v.publish(w, r, path)
	case (path == base+"/v2/events" || path == base+"/events") && r.Method == http.MethodPost:
		v.publish(w, r, "/publish")
	default:
		v.refuse(w, refused, "a path that applications do not have", http.StatusNotFound, "there is no such path")
	}
}

// publish hands a request to the ingress as one of the Door's namespace.
func (v *visit) publish(w http.ResponseWriter, r *http.Request, path string) {
	if chain := r.Header.Get(door.HeaderCertificates); !v.isVerified(chain) {
		if !v.compute(w, r) {
			return
		}
		err := v.identify(r, chain)
		v.all.work.Release(v.at.Name.Namespace, 1)
		if err != nil {
			v.turnAway(w, err)
			return
		}
	}
	v.at.limiter.verify(v.sender)
	out := ingress.Permit(r, v.permit)
	out.URL.Path, out.URL.RawPath = path, ""
	watched := &watchedWriter{ResponseWriter: w}
	v.reason = ""
	v.all.deps.Ingress.ServeHTTP(watched, out)
	switch {
	case watched.status < http.StatusMultipleChoices:
		v.result = accepted
	case watched.status >= http.StatusInternalServerError:
		v.reason = "the event could not be stored: look at the eventbridge's metrics and log"
	case v.reason == "":
		v.result, v.reason = invalid, "the request was answered with status "+strconv.Itoa(watched.status)
	}
}

// identify verifies who sends.
func (v *visit) identify(r *http.Request, chain string) error {
	certificates, err := certificatesOf(chain)
	if err != nil {
		return err
	}
	if v.verified, err = v.at.Verify(&door.Request{Header: r.Header, Certificates: certificates}, v.now); err == nil && !v.verified.Until.IsZero() {
		v.at.chains.Add(sha256.Sum256([]byte(chain)), v.verified, chainsFor)
	}
	return err
}

// isVerified reports whether a chain of certificates was verified before by this version of the Door, and has not ended.
func (v *visit) isVerified(chain string) bool {
	if chain == "" {
		return false
	}
	known, ok := v.at.chains.Get(sha256.Sum256([]byte(chain)))
	verified, isKnown := known.(door.Verified)
	if !ok || !isKnown || !v.now.Before(verified.Until) {
		return false
	}
	v.verified = verified
	return true
}

// turnAway responds to a sender who may not send: to an application as Kyma's gateway does.
func (v *visit) turnAway(w http.ResponseWriter, err error) {
	if v.at.Form != door.Application {
		v.refuse(w, refused, err.Error(), http.StatusUnauthorized, unauthorized)
		return
	}
	v.result, v.reason = refused, err.Error()
	status, text := http.StatusForbidden, "No valid subject found"
	if errors.Is(err, door.ErrCertificate) {
		status, text = http.StatusUnauthorized, "A client certificate is required"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		Code  int    `json:"code"`
		Error string `json:"error"`
	}{status, text})
}

// permit checks an event of a sender who was verified: the source is the Door's.
func (v *visit) permit(ev *cloudevent.Event, _ string) error {
	switch {
	case ev.Source != v.at.Source:
		v.result, v.reason = forbidden, "an event has another source than "+v.at.Source
		return fmt.Errorf("%w: the source must be %s", ingress.ErrForbidden, v.at.Source)
	case !v.at.Takes(ev.Type):
		v.result, v.reason = mistyped, fmt.Sprintf("%v: %s", door.ErrType, ev.Type)
		return fmt.Errorf("%w: events of type %s are not taken here", ingress.ErrForbidden, ev.Type)
	}
	if err := v.allow(ev); err != nil {
		v.result, v.reason = forbidden, err.Error()
		return fmt.Errorf("%w: %w", ingress.ErrForbidden, err)
	}
	ev.SetExtension(door.ExtensionDoor, v.at.Name.Name)
	return nil
}

// certificatesOf decodes what a gateway writes: base64 of each certificate of the chain, separated by commas.
func certificatesOf(text string) ([]*x509.Certificate, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, ",")
	if len(text) > maxCertificate || len(parts) > door.MostCertificates {
		return nil, door.ErrIssuer
	}
	certificates := make([]*x509.Certificate, len(parts))
	for i, part := range parts {
		der, err := base64.StdEncoding.DecodeString(part)
		if err != nil {
			return nil, door.ErrIssuer
		}
		if certificates[i], err = x509.ParseCertificate(der); err != nil {
			return nil, door.ErrIssuer
		}
	}
	return certificates, nil
}

// watchedWriter remembers the status.
type watchedWriter struct {
	http.ResponseWriter

	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *watchedWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the writer below for http.ResponseController.
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
